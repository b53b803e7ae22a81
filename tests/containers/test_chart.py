"""The chart and the manifests for Kubernetes: valid, restricted, and with flags that the broker accepts."""

import subprocess
import sys
from typing import Any

import pytest
import yaml

from miniqueue import __version__
from miniqueue.server.config.config import Config, load
from miniqueue.server.listeners import STOP_SECONDS
from miniqueue.server.security.exposure import check_exposure
from tests.containers.manifests import CHART, HELM, MANIFESTS, helm, manifests, template

pytestmark = pytest.mark.skipif(not HELM.exists(), reason="helm is missing: npm --prefix tests/acceptance ci")

OPTIONS = {
    "defaults": (),
    "password": ("--set=users.secret=,password.secret=first",),
    "certificate": ("--set=tls.secret=tls", "--set=fsGroup=null", "--set-string=storage.className=fast"),
    "all": ("--set=serviceMonitor.enabled=true,settleSeconds=60,podDisruptionBudget.maxUnavailable=0",),
}


def objects(*options: str) -> list[dict[str, Any]]:
    return [made for made in yaml.safe_load_all(template(*options)) if made]


def the(kind: str, made: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = [each for each in made if each["kind"] == kind]
    return found


def pod_specs(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [the("StatefulSet", made)["spec"]["template"]["spec"], the("Pod", made)["spec"]]


def test_helm_finds_nothing_wrong():
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_objects_fit_the_schemas_of_kubernetes(options, tmp_path):
    known = [made for made in objects(*options) if made["kind"] != "ServiceMonitor"]  # which another project defines
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all(known))
    done = subprocess.run(
        [f"{sys.prefix}/bin/kubernetes-validate", "--strict", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(known) == 6


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_broker_accepts_the_flags(options):
    (container,) = the("StatefulSet", objects(*options))["spec"]["template"]["spec"]["containers"]
    config = load(container["args"], {"MINIQUEUE_HOST": "0.0.0.0"})
    assert isinstance(config, Config)
    assert check_exposure(config) == "", "with users and TLS, there is nothing to say"
    mounted = [mount["mountPath"] for mount in container["volumeMounts"]]
    for file in filter(
        None, (config.users, config.password_file, None if config.has_default_certificate else config.cert)
    ):
        assert str(file.parent) in mounted


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_pods_are_what_pod_security_calls_restricted(options):
    for spec in pod_specs(objects(*options)):
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert all(set(volume) <= {"name", "secret"} for volume in spec.get("volumes", ()))
        assert (spec["enableServiceLinks"], spec["automountServiceAccountToken"]) == (False, False)
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


@pytest.mark.parametrize("seconds", [0, 10, 600])
def test_the_grace_period_has_room_for_consumers_and_the_stop(seconds):
    spec = the("StatefulSet", objects(f"--set=settleSeconds={seconds}"))["spec"]["template"]["spec"]
    config = load(spec["containers"][0]["args"], {})
    assert isinstance(config, Config)
    assert config.settle_seconds == seconds
    assert spec["terminationGracePeriodSeconds"] >= seconds + STOP_SECONDS + 10


def test_probes_ask_the_monitoring_port_over_tls():
    (container,) = the("StatefulSet", objects())["spec"]["template"]["spec"]["containers"]
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/livez",
        "liveness": "/livez",
        "readiness": "/readyz",
    }
    assert {(probe["port"], probe["scheme"]) for probe in probes.values()} == {("monitor", "HTTPS")}


def test_services_policies_and_budgets_select_the_pod_and_its_ports():
    made = objects("--set=serviceMonitor.enabled=true")
    template_ = the("StatefulSet", made)["spec"]["template"]
    labels, ports = (
        template_["metadata"]["labels"],
        {port["name"] for port in template_["spec"]["containers"][0]["ports"]},
    )
    services = [each for each in made if each["kind"] == "Service"]
    assert all(service["spec"]["selector"] == labels for service in services)
    assert {port["targetPort"] for service in services for port in service["spec"]["ports"]} == ports
    headless = next(service for service in services if service["spec"].get("clusterIP") == "None")
    assert the("StatefulSet", made)["spec"]["serviceName"] == headless["metadata"]["name"]
    monitored = the("ServiceMonitor", made)["spec"]
    assert monitored["selector"]["matchLabels"].items() <= headless["metadata"]["labels"].items()
    assert the("PodDisruptionBudget", made)["spec"]["selector"]["matchLabels"] == labels
    policy = the("NetworkPolicy", made)["spec"]
    assert policy["podSelector"]["matchLabels"] == labels
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == ports
    assert the("Pod", made)["metadata"]["labels"].items() & labels.items() != labels.items(), (
        "no Service finds the test"
    )


@pytest.mark.parametrize(("closed", "admitted"), [("monitoring", {"https", "resp"}), ("clients", {"monitor"})])
def test_an_empty_list_of_the_network_policy_admits_nobody(closed, admitted, tmp_path):
    """In Kubernetes, a rule with an empty list admits all peers."""
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"networkPolicy": {closed: []}}))
    (rule,) = the("NetworkPolicy", objects(f"--values={values}"))["spec"]["ingress"]
    assert rule["from"]
    assert {port["port"] for port in rule["ports"]} == admitted


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--set=users.secret=", "users.secret or password.secret must name a Secret"),
        ("--set=storage.size=512Mi", "storage.size"),
        ("--set=replicas=2", "replicas"),
        ("--set=settleSeconds=-1", "settleSeconds"),
    ],
)
def test_values_that_cannot_work_are_refused(options, problem):
    done = helm("template", "miniqueue", str(CHART), "--kube-version=1.30.0", options)
    assert done.returncode != 0
    assert problem in done.stderr


def test_the_manifests_are_those_of_the_chart():
    made = manifests()
    files = {path.name: path.read_text() for path in MANIFESTS.iterdir() if path.name != "kustomization.yaml"}
    assert files == made, "python -m tests.containers.manifests writes them"
    kustomization = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())
    assert {*kustomization["resources"], "servicemonitor.yaml"} == set(files)
    assert kustomization["images"] == [{"name": "miniqueue", "newTag": __version__}]
    assert "helm" not in "".join(files.values()).lower()
