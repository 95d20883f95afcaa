"""moto's services, called with a WSGI environment and without Flask's contexts, sessions and hooks.

Flask takes as long as moto's own dispatch. moto needs of it the table of URLs, and the class of requests. Written
against moto 5.2.5.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from botocore.exceptions import ClientError
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response


@cache
def _services() -> Any:
    """All of them; each is made at its first request, from files."""
    services = DomainDispatcherApplication(create_backend_app)
    # Otherwise a hundred patterns are tried for each request.
    services.get_backend_for_host = lru_cache(maxsize=256)(services.get_backend_for_host)
    return services


def answer_of_moto(environ: dict[str, Any]) -> Response:
    """The answer to one request, as moto's own server gives it. Raises what a fault of moto raises."""
    service = _services().get_application(environ)
    try:
        endpoint, _ = service.url_map.bind_to_environ(environ).match()
        result = _call(service.view_functions[endpoint].callback, service.request_class(environ))
    except HTTPException as error:
        return Response.force_type(error.get_response(environ), environ)
    status, headers, body = result if len(result) == 3 else (200, {}, result)
    return Response(body, status, headers, mimetype="text/html")


def _call(view: Any, request: Any) -> Any:
    try:
        return view(request, request.raw_url, dict(request.headers))
    except ClientError as error:
        return 400, {}, error.response["Error"]["Message"]
