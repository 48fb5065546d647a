"""The compose file holds to the schema of compose, and names what the repository has. It has not been run."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from labkit.launch.hosts import names

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "cluster" / "containers"
SERVICES = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]


@pytest.mark.hosts
def test_it_holds_to_the_schema_of_compose(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--target", tmp_path, "check-jsonschema>=0.30"], check=True, timeout=120)
    (file,) = tmp_path.rglob("compose-spec.json")  # that tool brings it along
    schema = json.loads(file.read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    text = (FOLDER / "compose.yaml").read_text()
    assert list(validator.iter_errors(yaml.safe_load(text))) == []
    assert list(validator.iter_errors(yaml.safe_load(text.replace("hostname:", "host_name:"))))


def test_every_host_of_the_lab_is_a_service_of_that_name():
    named = [host.name for host in names.parse(SERVICES["notebook"]["environment"]["LABKIT_HOSTS"])]
    assert named == [name for name in SERVICES if name != "notebook"]
    assert all(SERVICES[name]["hostname"] == name for name in SERVICES)
    assert set(SERVICES["notebook"]["depends_on"]) == set(named)


def test_all_share_one_home_and_only_the_notebook_is_reached_and_from_this_machine_alone():
    assert {tuple(service["volumes"]) for service in SERVICES.values()} == {("home:/home/learner",)}
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["notebook"]
    assert all(port.startswith("127.0.0.1:") for port in SERVICES["notebook"]["ports"])


def test_the_image_is_made_of_what_is_here():
    build = SERVICES["notebook"]["build"]
    dockerfile = ROOT / build["dockerfile"]
    assert (FOLDER / build["context"]).resolve() == ROOT and dockerfile.exists()
    for source in re.findall(r"^COPY (\S+)", dockerfile.read_text(), re.MULTILINE):
        assert (ROOT / source).exists()


def test_its_program_starts_each_service():
    start = (FOLDER / "start").read_text()
    assert os.access(FOLDER / "start", os.X_OK)
    for service in SERVICES.values():
        assert f"\n{service['command'][0]})" in start
    if shutil.which("sh"):
        subprocess.run(["sh", "-n", FOLDER / "start"], check=True)
    refused = subprocess.run(["sh", FOLDER / "start", "other"], capture_output=True, text=True)
    assert refused.returncode == 2 and "start host | start notebook" in refused.stderr


def test_it_says_that_it_has_not_been_run():
    assert (FOLDER / "compose.yaml").read_text().startswith("# NOT RUN.")
