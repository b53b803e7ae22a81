# miniqueue in a container:
#
#     docker run -e MINIQUEUE_PASSWORD=… -p 127.0.0.1:8080:8080 -p 127.0.0.1:6379:6379 -v miniqueue:/var/lib/miniqueue miniqueue
#
# What follows the name of the image are flags. Messages and certificates are in the volume. Inside, all interfaces are
# listened on, which without users or a password is refused. Nothing is written outside the volume, no rights are
# needed, and every uid with group 0 will do: docs/containers.md.
#
# Two builds contain the same bytes, if the base is the same and times are left out, as `buildah build --timestamp 0`
# does. The base needs glibc, Python with venv, bash, and openssl.

ARG BASE=python:3.11-slim-bookworm

# All packages that the broker needs, in an environment without pip. PYTHONHASHSEED: compiled code can contain sets.
FROM ${BASE} AS packages
ENV PYTHONHASHSEED=0 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 SOURCE_DATE_EPOCH=315532800
WORKDIR /build
COPY .ci/locks/build.lock .ci/locks/broker.lock .ci/locks/
RUN python3 -m venv pip \
    && pip/bin/pip install --no-deps --require-hashes --requirement .ci/locks/build.lock \
    && python3 -m venv --without-pip /opt/miniqueue

# On some machines, such as arm64, plyvel has no wheel: it is compiled there, or where `--build-arg SOURCES=plyvel` says
# so, and takes its libraries along; old tags, since these have libraries of their own.
ARG SOURCES=
RUN download() { pip/bin/pip wheel --no-deps --require-hashes --requirement .ci/locks/broker.lock --wheel-dir wheels "$@"; } \
    && { download --only-binary=:all: ${SOURCES:+--no-binary=$SOURCES} \
        || { apt-get update \
            && apt-get install --yes --no-install-recommends g++ libleveldb-dev \
            && LDFLAGS=-Wl,--disable-new-dtags,-rpath,/opt/miniqueue/lib download --no-build-isolation ${SOURCES:+--no-binary=$SOURCES} \
            && cp --dereference /usr/lib/*-linux-gnu/libleveldb.so.1d /usr/lib/*-linux-gnu/libsnappy.so.1 /opt/miniqueue/lib; }; } \
    && pip/bin/pip --python /opt/miniqueue/bin/python3 install --no-deps --no-index --no-compile wheels/* \
    && rm --recursive wheels

# Compiled before, since nobody can write there later. With unchecked hashes, since times differ from build to build.
RUN find /opt/miniqueue -name direct_url.json -delete \
    && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/miniqueue/lib

# miniqueue itself, and its client, below a directory of their own.
FROM packages AS miniqueue
COPY pyproject.toml README.md LICENSE ./
COPY .ci/sbom.py .ci/
COPY client client
COPY miniqueue miniqueue
RUN pip/bin/pip wheel --no-deps --no-build-isolation --wheel-dir wheels ./client . \
    && pip/bin/pip --python /opt/miniqueue/bin/python3 install --no-deps --no-index --no-compile --find-links wheels --prefix /own/opt/miniqueue miniqueue-client miniqueue \
    && python3 -m compileall -q --invalidation-mode unchecked-hash -s /own /own \
    && install -D --mode 644 LICENSE /own/opt/miniqueue/share/miniqueue/LICENSE \
    && python3 .ci/sbom.py .ci/locks/broker.lock >/own/opt/miniqueue/share/miniqueue/sbom.cdx.json

FROM ${BASE}
# Python's own modules: its images leave them uncompiled, which costs each start half a second.
RUN PYTHONHASHSEED=0 python3 -m compileall -q --invalidation-mode unchecked-hash -x '/(test|tests|site-packages|dist-packages)/' \
    "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
# Group 0 and not the user: OpenShift gives each project a uid of its own, with this group.
RUN install --directory --owner 10001 --group 0 --mode 0770 /var/lib/miniqueue
COPY .ci/image-health /opt/miniqueue/bin/health
COPY --from=packages /opt/miniqueue /opt/miniqueue
COPY --from=miniqueue /own/ /
USER 10001:0

# ./data and ./certs are in the volume; listening outside the container is the matter of `docker run -p`.
WORKDIR /var/lib/miniqueue
VOLUME /var/lib/miniqueue
ENV PATH=/opt/miniqueue/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin MINIQUEUE_HOST=0.0.0.0

# HTTP/2 over TLS, RESP, and monitoring, which only listens inside unless MINIQUEUE_MONITOR_HOST is 0.0.0.0: `docker
# exec` and the health check reach it.
EXPOSE 8080 6379 8081
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["/opt/miniqueue/bin/health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["miniqueue"]

ARG BASE
ARG REVISION=
LABEL org.opencontainers.image.title="miniqueue" \
    org.opencontainers.image.description="A durable message queue in one process: HTTP/2 and RESP on one store." \
    org.opencontainers.image.version="0.1.0" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.licenses="MIT" \
    org.opencontainers.image.base.name="${BASE}"
