from tests.support.cluster_fixture import cluster  # noqa: F401 - a fixture
