from tests.support.cluster.fixture import cluster  # noqa: F401 - a fixture
