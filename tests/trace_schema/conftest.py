"""Property tests here have no deadline: on a busy machine a slow example is no fault of the schema."""

from hypothesis import HealthCheck, settings

settings.register_profile("schema", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("schema")
