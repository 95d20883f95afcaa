"""Every change to moto's behaviour, in one place. Written against moto 5.2.5; each patch states its reason.

moto's EC2Response consists of mixins and finds its actions by name, so replacing an attribute replaces an action.
``install`` may be called again, for another emulator of the same process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any
from urllib.parse import parse_qsl

from moto.autoscaling.exceptions import ValidationError
from moto.autoscaling.models import AutoScalingBackend
from moto.autoscaling.responses import AutoScalingResponse
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.responses import ActionResult
from moto.core.utils import get_service_model
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.amis import Ami
from moto.ec2.models.subnets import Subnet
from moto.ec2.responses import EC2Response
from moto.events.utils import EventTemplateParser
from moto.iam.models import ManagedPolicy
from moto.sqs.exceptions import ReceiptHandleIsInvalid
from moto.sqs.models import SQSBackend
from moto.ssm.models import Parameter, ParameterDict
from werkzeug.datastructures import MultiDict

from local.aws.autoscaling import actions as autoscaling_actions
from local.aws.autoscaling.hooks import global_timeout
from local.aws.ec2 import actions, placement_groups
from local.aws.ec2.filters import page
from local.aws.ec2.images import PublishedImage, image_for
from local.aws.ec2.launch_templates import describe_launch_templates
from local.aws.ec2.refusal import RequestRefused
from local.aws.ec2.run_instances import run_instances
from local.aws.ec2.type_pages import instance_type_page
from local.aws.emulator import Emulator
from local.aws.fleet.request import create_fleet
from local.aws.moto.state import ec2

PARAMETERS_KEY = "dovetail.parameters"
"""Key of a request's parsed parameters in the WSGI environment, where the recorder reads them."""

INSTANCE_TYPE_PAGE = 100
TYPE_PAGE_LIMIT = 60
"""Number of cached pages; one page of 100 types has 0.4 MB."""
_TYPE_PAGES: dict[str, str] = {}
INTERNAL_EVENT_FIELDS = frozenset({"ingestion-time", "archive-arn", "replay-name"})
XML = {"Content-Type": "text/xml;charset=UTF-8"}

Action = Callable[[Emulator, str, Mapping[str, Any]], Any]

# moto's own functions, so that a second ``install`` does not wrap the first one's.
_CREATE_HOOK = AutoScalingBackend.create_lifecycle_hook
_DESCRIBE_TYPES = EC2Response.describe_instance_types
_TAG_ACTIONS = {name: getattr(EC2Response, name) for name in ("create_tags", "delete_tags")}
_CHECK_PARAMETER = ParameterDict._check_loading_status
_TRANSFORM_EVENT = EventTemplateParser.parse
_POLICY_OF_A_STACK = ManagedPolicy.create_from_cloudformation_json.__func__
_CALL_ACTION = EC2Response.call_action
_CHANGE_VISIBILITY = SQSBackend.change_message_visibility


def install(emulator: Emulator) -> None:
    """Replace moto's actions with the emulator's."""
    _install_actions(emulator)
    _install_auto_scaling(emulator)
    _install_instance_type_paging()
    _install_tag_check(emulator)
    _install_address_count()
    _install_published_parameters()
    _install_plain_events()
    _install_policy_texts()
    _install_parameter_capture()
    _install_visibility_check()


def _install_actions(emulator: Emulator) -> None:
    """moto 5.2.5 ignores pools, prices, capacity, tokens and lifecycle, and scans all tags per instance."""
    replaced: dict[str, Action] = {
        "create_fleet": create_fleet,
        "run_instances": run_instances,
        "describe_instances": actions.describe_instances,
        "describe_instance_status": actions.describe_instance_status,
        "terminate_instances": actions.terminate_instances,
        "stop_instances": actions.stop_instances,
        "start_instances": actions.start_instances,
        "describe_spot_price_history": actions.describe_spot_price_history,
        "describe_capacity_reservations": actions.describe_capacity_reservations,
        "describe_launch_templates": describe_launch_templates,
        "create_placement_group": placement_groups.create_placement_group,
        "describe_placement_groups": placement_groups.describe_placement_groups,
        "delete_placement_group": placement_groups.delete_placement_group,
    }
    for name, action in replaced.items():
        setattr(EC2Response, name, _answering(emulator, action))


@contextmanager
def _refusals_of_ec2() -> Iterator[None]:
    try:
        yield
    except RequestRefused as refused:
        raise EC2ClientError(refused.code, refused.message) from refused


def _answering(emulator: Emulator, action: Action) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        self.error_on_dryrun()
        with _refusals_of_ec2():
            answer = action(emulator, self.region, self.params)
        return (200, dict(XML), answer) if isinstance(answer, str) else ActionResult(answer)

    return method


def _install_auto_scaling(emulator: Emulator) -> None:
    """moto 5.2.5 has no lifecycle actions, its groups know only instances of their own, and all its hooks wait for two
    days.
    """
    for name, action in autoscaling_actions.ACTIONS.items():
        setattr(AutoScalingResponse, name, _scaling(emulator, action))

    def create_with_its_own_limit(self: Any, *parts: Any, **named: Any) -> Any:
        hook = _CREATE_HOOK(self, *parts, **named)
        hook.global_timeout = int(global_timeout(hook.heartbeat_timeout))
        return hook

    AutoScalingBackend.create_lifecycle_hook = create_with_its_own_limit


def _scaling(emulator: Emulator, action: autoscaling_actions.Action) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        try:
            return ActionResult(action(emulator, self.region, self.params))
        except RequestRefused as refused:
            raise ValidationError(refused.message) from refused

    return method


def _install_instance_type_paging() -> None:
    """moto answers all 1,395 types in one page of 5.9 MB, which takes a second to write and blocks a client's event
    loop for 0.4 s. The types never change, so finished pages are cached for the life of the process.
    """

    def paged(self: Any) -> Any:
        key = self.region + json.dumps(self.params, sort_keys=True, default=str)
        if key not in _TYPE_PAGES:
            if len(_TYPE_PAGES) >= TYPE_PAGE_LIMIT:
                _TYPE_PAGES.clear()
            _TYPE_PAGES[key] = _instance_type_page(
                self, _DESCRIBE_TYPES(self).result["InstanceTypes"]
            )
        return 200, dict(XML), _TYPE_PAGES[key]

    EC2Response.describe_instance_types = paged


def _instance_type_page(response: Any, types: list[Any]) -> str:
    with _refusals_of_ec2():
        rows, token = page(types, response.params, INSTANCE_TYPE_PAGE)
    return instance_type_page(rows, token)


def _install_tag_check(emulator: Emulator) -> None:
    """moto accepts tags for an instance that does not exist; EC2 answers InvalidInstanceID.NotFound."""
    for name, action in _TAG_ACTIONS.items():
        setattr(EC2Response, name, _checked(emulator, action))


def _checked(emulator: Emulator, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(original)
    def method(self: Any) -> Any:
        with _refusals_of_ec2():
            ids = self._get_param("Resources", [])
            actions.prepare_tag_change(emulator, self.region, ids)
        return original(self)

    return method


def _install_address_count() -> None:
    """moto counts network interfaces; our instances have none and reserve addresses in the subnet."""
    Subnet.available_ip_address_count = property(
        lambda self: self._available_ip_addresses - len(self._subnet_ips)
    )


def _install_published_parameters() -> None:
    """moto lacks the image parameters of EKS and other publishers, and forbids their creation."""

    def check_and_publish(self: Any, key: str) -> None:
        _CHECK_PARAMETER(self, key)
        if isinstance(key, str) and not dict.__contains__(self, key):
            image = image_for(key)
            if image is not None:
                publish_image(self.region_name, image)
                dict.__setitem__(self, key, [_parameter(self.account_id, image)])

    ParameterDict._check_loading_status = check_and_publish


class _PublishedAmi(Ami):  # type: ignore[misc]
    """moto reports 15 GiB for every image's root volume."""

    root_gib: int

    @property
    def block_device_mappings(self) -> list[dict[str, Any]]:
        (root,) = super().block_device_mappings
        return [{**root, "Ebs": {**root["Ebs"], "VolumeSize": self.root_gib}}]


def publish_image(region: str, image: PublishedImage) -> None:
    """Make DescribeImages show the image."""
    backend = ec2(region)
    if image.image_id not in backend.amis:
        published = _PublishedAmi(
            backend,
            image.image_id,
            name=image.name,
            description=image.description,
            owner_id=image.owner_id,
            owner_alias="amazon",
            public=True,
            virtualization_type="hvm",
            architecture=image.architecture,
            creation_date=image.created,
            platform=image.platform,
            image_location=f"amazon/{image.name}",
            hypervisor="xen",
            root_device_type="ebs",
            root_device_name=image.root_device,
            region_name=f"{region}a",
        )
        published.root_gib = image.root_gib
        backend.amis[image.image_id] = published


def _parameter(account_id: str, image: PublishedImage) -> Any:
    return Parameter(
        account_id=account_id,
        name=image.parameter,
        value=image.image_id,
        parameter_type="String",
        description=None,
        allowed_pattern=None,
        keyid=None,
        last_modified_date=image.created,
        version=1,
        data_type="aws:ec2:image",
    )


def _install_plain_events() -> None:
    """moto needs jsonpath_ng even for a rule without an input transformer, and walks the event with it."""

    def parse(input_template: str, input_paths_map: Any, event: Mapping[str, Any]) -> Any:
        if input_template:
            return _TRANSFORM_EVENT(input_template, input_paths_map, event)
        return {key: value for key, value in event.items() if key not in INTERNAL_EVENT_FIELDS}

    EventTemplateParser.parse = staticmethod(parse)


def _install_policy_texts() -> None:
    """CloudFormation takes a policy as an object or as its text; moto would encode a text once more."""

    def create(kind: Any, name: str, template: dict[str, Any], *place: Any, **rest: Any) -> Any:
        stated = template.get("Properties", {})
        if isinstance(text := stated.get("PolicyDocument"), str):
            template = {**template, "Properties": {**stated, "PolicyDocument": json.loads(text)}}
        return _POLICY_OF_A_STACK(kind, name, template, *place, **rest)

    ManagedPolicy.create_from_cloudformation_json = classmethod(create)


def _install_parameter_capture() -> None:
    """The recorder needs API parameter names, which moto has only after its own parser ran."""

    def call_action(self: Any) -> Any:
        self.normalized_request.environ[PARAMETERS_KEY] = self.params
        return _CALL_ACTION(self)

    EC2Response.call_action = call_action


def parse_ec2(action: str, body: bytes) -> dict[str, Any]:
    """Parameters of an EC2 request that moto did not process, by moto's parser. Empty for an unknown action."""
    model = get_service_model("ec2")
    if action not in model.operation_names:
        return {}
    values = MultiDict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    parser = PROTOCOL_PARSERS["ec2"](model.operation_model(action), map_type=dict)
    request = {"method": "POST", "values": values, "headers": {}, "body": body, "url_path": "/"}
    parsed: dict[str, Any] = parser.parse({**request, "url_params": {}})
    return parsed


def _install_visibility_check() -> None:
    """moto hides a message that was visible again already, and lets an older receipt do so; SQS refuses both."""

    def change(self: Any, queue_name: str, receipt_handle: str, visibility_timeout: int) -> None:
        in_flight = any(
            one.receipt_handle == receipt_handle and not one.visible
            for one in self.get_queue(queue_name)._messages
        )
        if not in_flight:
            raise ReceiptHandleIsInvalid
        _CHANGE_VISIBILITY(self, queue_name, receipt_handle, visibility_timeout)

    SQSBackend.change_message_visibility = change
