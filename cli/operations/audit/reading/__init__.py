"""One reading of API server, EC2 and Redis. Nothing is written anywhere."""
