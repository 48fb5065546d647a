"""The option that renews FAULTS.md."""


def pytest_addoption(parser):
    parser.addoption("--write", action="store_true", help="renew tests/faults/FAULTS.md")
