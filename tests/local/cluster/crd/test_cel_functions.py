"""The functions that rules can call beside CEL's own."""

from __future__ import annotations

import cel
import pytest

from local.cluster.crd.cel_values import FAILURES
from shared.domain.devices.cel_functions import FUNCTIONS


def evaluated(expression: str) -> object:
    return cel.compile(expression).execute(cel.Context({}, FUNCTIONS))


@pytest.mark.parametrize(
    "expression",
    [
        "quantity('1500m') == quantity('1.5')",
        "quantity('1Gi').isGreaterThan(quantity('1G'))",
        "quantity('1Ki').isLessThan(quantity('1Mi'))",
        "quantity('2').compareTo(quantity('2000m')) == 0",
        "quantity('8Ei').isInteger() == false",
        "quantity('50Mi').asInteger() == 52428800",
        "quantity('500m').asApproximateFloat() == 0.5",
        "quantity('1').add(quantity('500m')).sub(1) == quantity('500m')",
        "quantity('-1').sign() == -1",
        "isQuantity('1.5Gi') && !isQuantity('lots')",
        "isURL('https://example.org:80/a?b=c') && !isURL('example') && !isURL('https://[::1')",
        "url('https://example.org:80/a?b=c').getHost() == 'example.org:80'",
        "url('https://example.org:80/a?b=c').getPort() == '80'",
        "url('https://example.org:80/a?b=c').getQuery()['b'] == ['c']",
        "isIP('::1') && !isIP('10.0.0.256') && ip('10.0.0.1').family() == 4",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').prefixLength() == 8",
        "isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0')",
        "'a12b3'.find('[0-9]+') == '12' && 'abc'.find('[0-9]') == ''",
        "'a12b3'.findAll('[0-9]+') == ['12', '3'] && 'a12b3'.findAll('[0-9]+', 1) == ['12']",
        "[1, 2, 2].isSorted() && ![2, 1].isSorted()",
        "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && [1].indexOf(3) == -1",
        "'abcb'.indexOf('b') == 1 && 'abcb'.lastIndexOf('b') == 3",
        "[1, 2].sum() == 3 && [1, 2].max() == 2 && [1, 2].min() == 1",
        "'%s has %d of %.1f%% %s'.format(['a', 2, 0.5, [true]]) == 'a has 2 of 0.5% [true]'",
        "'A,b'.lowerAscii().split(',') == ['a', 'b'] && ' x '.trim() == 'x'",
        "sets.contains(['a', 'b'], ['a'])",
    ],
)
def test_kubernetes_functions_are_there(expression: str) -> None:
    assert evaluated(expression) is True


@pytest.mark.parametrize(
    "expression",
    [
        "quantity('lots')",
        "quantity('1.5').asInteger()",
        "'a'.isGreaterThan(quantity('1'))",
        "ip('10.0.0.256')",
        "cidr('10.0.0.0')",
        "url('')",
        "'%d'.format(['a'])",
        "'%d'.format([])",
        "math.greatest(1, 2)",
    ],
)
def test_what_has_no_value_fails_in_a_way_that_breaks_the_rule(expression: str) -> None:
    """``math`` is no part of Kubernetes' environment: a rule that needs it would be refused there."""
    with pytest.raises(FAILURES):
        evaluated(expression)
