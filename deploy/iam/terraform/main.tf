# The queue for interruption notices with its six EventBridge rules, and the policies of Dovetail's services, each as a
# managed policy of its own: attach to a service's role what that service needs (roles.json).
# Policies, rules and roles are read from deploy/iam, so that there is one text of each.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "cluster_name" {
  type        = string
  description = "Name of the EKS cluster; the queue gets the same name."
  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,79}$", var.cluster_name))
    error_message = "At most 80 letters, digits, hyphens and underscores."
  }
}

variable "node_role_name" {
  type        = string
  description = "Name of the role that nodes run with; with * at its end, of all roles that node classes may name."
}

data "aws_partition" "current" {}
data "aws_region" "current" {}
data "aws_caller_identity" "current" {}

locals {
  values = {
    partition = data.aws_partition.current.partition
    region    = data.aws_region.current.name
    account   = data.aws_caller_identity.current.account_id
    cluster   = var.cluster_name
    node_role = var.node_role_name
  }
  rules    = jsondecode(file("${path.module}/../rules.json"))
  services = jsondecode(file("${path.module}/../roles.json"))
  policies = toset(flatten(values(local.services)))
}

resource "aws_sqs_queue" "interruption" {
  name                      = var.cluster_name
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
}

resource "aws_sqs_queue_policy" "interruption" {
  queue_url = aws_sqs_queue.interruption.url
  policy    = templatefile("${path.module}/../policies/queue.json", local.values)
}

resource "aws_cloudwatch_event_rule" "interruption" {
  for_each      = local.rules
  name          = "${var.cluster_name}-${each.key}"
  state         = "ENABLED"
  event_pattern = jsonencode(each.value)
}

resource "aws_cloudwatch_event_target" "interruption" {
  for_each  = local.rules
  rule      = aws_cloudwatch_event_rule.interruption[each.key].name
  target_id = "KarpenterInterruptionQueueTarget"
  arn       = aws_sqs_queue.interruption.arn
}

resource "aws_iam_policy" "dovetail" {
  for_each = local.policies
  name     = "Dovetail-${var.cluster_name}-${each.key}"
  policy   = templatefile("${path.module}/../policies/${each.key}.json", local.values)
}

output "interruption_queue" {
  description = "For INTERRUPTION_QUEUE."
  value       = aws_sqs_queue.interruption.name
}

output "policy_arns" {
  description = "By name of the policy."
  value       = { for name, policy in aws_iam_policy.dovetail : name => policy.arn }
}

output "policy_arns_of_services" {
  description = "By service: what its role must have."
  value       = { for service, names in local.services : service => [for name in names : aws_iam_policy.dovetail[name].arn] }
}
