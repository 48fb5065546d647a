"""The values and the image for Zero to JupyterHub name what is here. They have not been run, and say so."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "cluster" / "hub" / "zero-to-jupyterhub"
VALUES = yaml.safe_load((FOLDER / "values.yaml").read_text())


def test_they_say_that_they_have_not_been_run():
    for name in ("values.yaml", "Dockerfile"):
        assert (FOLDER / name).read_text().startswith("# NOT RUN.")


def test_the_image_is_made_of_what_is_here():
    for source in re.findall(r"^COPY (\S+)", (FOLDER / "Dockerfile").read_text(), re.MULTILINE):
        assert (ROOT / source).exists()


def test_learners_have_the_limits_of_a_class_on_one_server():
    config = (ROOT / "cluster" / "hub" / "jupyterhub_config.py").read_text()
    assert "mem_limit = 3 * GB" in config and VALUES["singleuser"]["memory"]["limit"] == "3G"
    assert "cpu_limit = 4.0" in config and VALUES["singleuser"]["cpu"]["limit"] == 4
    assert "2 * 3600" in config and VALUES["cull"]["timeout"] == 2 * 3600


def test_learners_servers_are_apart_as_in_a_class_on_one_server():
    config, hub = (ROOT / "cluster" / "hub" / "jupyterhub_config.py").read_text(), VALUES["hub"]["config"]
    assert "disable_user_config = True" in config and hub["KubeSpawner"]["disable_user_config"] is True
    assert "subdomain_host" in config and hub["JupyterHub"]["subdomain_host"].startswith("https://")
    assert "cookie_host_prefix" in config and hub["JupyterHub"]["cookie_host_prefix_enabled"] is True


def test_ranks_have_shared_memory():
    (mounted,) = VALUES["singleuser"]["storage"]["extraVolumeMounts"]
    (volume,) = VALUES["singleuser"]["storage"]["extraVolumes"]
    assert mounted["mountPath"] == "/dev/shm" and mounted["name"] == volume["name"]
