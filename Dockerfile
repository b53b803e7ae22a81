# miniqueue in a container:
#
#     docker run -p 127.0.0.1:8080:8080 -p 127.0.0.1:6379:6379 -v miniqueue:/var/lib/miniqueue miniqueue -insecure
#
# What follows the name of the image are flags. Messages and certificates are in the volume. Inside, all interfaces
# are listened on, and without users that is refused unless `-insecure` says that `-p` keeps strangers out. Nothing is
# written outside the volume, and no rights are needed: docs/security.md has the flags that take the rest away.

FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY .ci/locks/build.lock .ci/locks/broker.lock ./
RUN pip install --no-cache-dir --no-deps --require-hashes --requirement build.lock \
    && pip wheel --no-cache-dir --no-deps --require-hashes --requirement broker.lock --wheel-dir /wheels
COPY pyproject.toml README.md LICENSE ./
COPY miniqueue ./miniqueue
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels .

FROM python:3.11-slim-bookworm
RUN --mount=from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels miniqueue
RUN useradd --system --uid 10001 --home-dir /var/lib/miniqueue miniqueue \
    && install --directory --owner miniqueue --group miniqueue --mode 700 /var/lib/miniqueue
USER miniqueue

# ./data and ./certs are in the volume; listening outside the container is the matter of `docker run -p`.
WORKDIR /var/lib/miniqueue
VOLUME /var/lib/miniqueue
ENV MINIQUEUE_HOST=0.0.0.0

# HTTP/2 over TLS, RESP, and monitoring, which only listens inside unless MINIQUEUE_MONITOR_HOST is 0.0.0.0: `docker
# exec` and the health check reach it.
EXPOSE 8080 6379 8081

# Host and port of monitoring may be set as variables; as flags, the health check has to be told too. It asks itself,
# so that the certificate need not be for the name that it asks.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["python", "-c", "import os, ssl, urllib.request as http; from miniqueue.server.security.exposure import is_loopback; name = os.environ.get(\"MINIQUEUE_MONITOR_HOST\", \"127.0.0.1\"); host = {\"0.0.0.0\": \"127.0.0.1\", \"::\": \"::1\"}.get(name, name); host = f\"[{host}]\" if \":\" in host else host; port = os.environ.get(\"MINIQUEUE_MONITOR_PORT\", 8081); tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); tls.check_hostname = False; tls.verify_mode = ssl.CERT_NONE; http.urlopen(f\"http{'' if is_loopback(name) else 's'}://{host}:{port}/readyz\", context=tls)"]

STOPSIGNAL SIGTERM
ENTRYPOINT ["miniqueue"]
