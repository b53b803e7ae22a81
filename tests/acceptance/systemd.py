"""A systemd of its own on a copy of this machine's files, with the service of examples/ installed.

    unshare ─▶ an overlay of / ─▶ systemd, process 1 there, starts nothing ─▶ READY=1 to us
               /opt/events, a FIFO ◀── a line for each start and end of the service

It has namespaces of its own for processes, mounts, the network, and cgroups: what it does is not seen outside.
"""

import os
import select
import signal
import subprocess
import sys
import sysconfig
from contextlib import closing
from pathlib import Path
from socket import AF_UNIX, SOCK_DGRAM, socket

from tests.acceptance.process import ROOT, START_SECONDS

SERVICE = "miniqueue.service"
UNSHARED = ("--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup")
#: Arguments: where to work, the sources, Python, its packages, the events, and the one file if the service runs that.
#: PrivateUsers= does not work in a chroot.
BOOT = """
set -eu
work=$1
mount -t tmpfs none "$work"
mkdir "$work/upper" "$work/inner" "$work/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/inner" "$work/root"
cd "$work/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mkdir -p old opt/events opt/source opt/python opt/packages opt/miniqueue/bin
mount --bind "$2" opt/source
mount --bind "$3" opt/python
mount --bind "$4" opt/packages
mount --bind "$5" opt/events
if [ -n "$6" ]; then
    cp "$6" opt/miniqueue/bin/miniqueue
else
    printf '%s\\n' '#!/bin/sh' 'exec "/opt/python/bin/$PYTHON" -m miniqueue "$@"' >opt/miniqueue/bin/miniqueue
fi
chmod 755 opt/miniqueue/bin/miniqueue
echo miniqueue:x:977:977::/var/lib/miniqueue:/usr/sbin/nologin >>etc/passwd
echo miniqueue:x:977: >>etc/group
rm -rf etc/systemd/system/*.wants lib/systemd/system/*.wants
printf '[Unit]\\nDefaultDependencies=no\\n' >etc/systemd/system/still.target
cp "opt/source/examples/miniqueue.service" etc/systemd/system/
pivot_root . old
umount --lazy old
exec env -i container=test NOTIFY_SOCKET=/opt/events/ready PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --unit=still.target --show-status=no
"""
#: What reports to the FIFO, and where this Python and its packages are. The user cannot read the home of another one.
REPORTS = f"""
[Service]
Environment=PYTHON=python{sysconfig.get_python_version()} PYTHONDONTWRITEBYTECODE=1
Environment=PYTHONPATH=/opt/source:/opt/source/client/src:/opt/packages LD_LIBRARY_PATH=/opt/python/lib
ExecStartPost=+/bin/sh -c 'echo started >/opt/events/fifo'
ExecStopPost=+/bin/sh -c 'echo $SERVICE_RESULT $EXIT_CODE $EXIT_STATUS >/opt/events/fifo'
"""


class Machine:
    """A running systemd; `end` takes it down with all that it has started.

    Args:
      directory: an empty one.
      program: the one-file program that the service runs; None: the package.
    """

    def __init__(self, directory: Path, program: Path | None = None) -> None:
        work, events = directory / "work", directory / "events"
        work.mkdir()
        events.mkdir()
        os.mkfifo(events / "fifo")
        self._events = os.open(events / "fifo", os.O_RDWR)
        self._said = b""
        python, packages = sys.base_prefix, sysconfig.get_path("purelib")
        command = ["unshare", *UNSHARED, "--fork", "--kill-child", "--propagation", "private", "bash", "-c", BOOT]
        with closing(socket(AF_UNIX, SOCK_DGRAM)) as ready:
            ready.bind(str(events / "ready"))
            ready.settimeout(START_SECONDS)
            self._process = subprocess.Popen(
                [*command, "boot", str(work), str(ROOT), python, packages, str(events), str(program or "")],
                stdout=subprocess.DEVNULL,
            )
            try:
                while b"READY=1" not in ready.recv(4096).split(b"\n"):
                    pass
            except OSError:
                self.end()
                raise
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        self._pid = children.read_text().strip()
        self.configure("reports", REPORTS)

    def run(self, *command: str, text: str = "") -> str:
        """Run a command in it, which must succeed, and return its output."""
        entered = ["nsenter", "--target", self._pid, *UNSHARED, "--root", "--wdns=/", *command]
        done = subprocess.run(entered, input=text, capture_output=True, text=True, timeout=START_SECONDS, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def systemctl(self, act: str, *words: str) -> str:
        """Run `systemctl act words... miniqueue` and return its output."""
        return self.run("systemctl", act, *words, SERVICE)

    def configure(self, name: str, text: str) -> None:
        """Add settings to the service, as `systemctl edit` does."""
        self.run("mkdir", "-p", f"/etc/systemd/system/{SERVICE}.d")
        self.run("tee", f"/etc/systemd/system/{SERVICE}.d/{name}.conf", text=text)
        self.run("systemctl", "daemon-reload")

    def shown(self, name: str) -> str:
        """Return a property of the service."""
        return self.systemctl("show", "--property", name, "--value")

    def event(self) -> str:
        """Return the next line about a start or an end of the service."""
        while b"\n" not in self._said:
            readable, _, _ = select.select([self._events], [], [], START_SECONDS)
            assert readable, f"nothing has happened in {START_SECONDS} s"
            self._said += os.read(self._events, 4096)
        line, _, self._said = self._said.partition(b"\n")
        return line.decode()

    def end(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        os.close(self._events)


def can_boot() -> bool:
    """Whether this machine permits the namespaces and mounts that are required."""
    mounts = (
        "mount -t tmpfs none /mnt && cd /mnt && mkdir upper inner root"
        " && mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=inner root"
        " && mount -t proc proc root/proc && mount -t cgroup2 cgroup2 root/sys"
    )
    command = ["unshare", *UNSHARED, "--fork", "--propagation", "private", "bash", "-c", mounts]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
