output "api_url" {
  description = "The HTTP API; null with the parameter Api=none"
  value       = lookup(aws_cloudformation_stack.terrapulse.outputs, "ApiUrl", null)
}

output "dashboard_url" {
  description = "CloudWatch's dashboard"
  value       = lookup(aws_cloudformation_stack.terrapulse.outputs, "DashboardUrl", null)
}

output "runner_role" {
  description = "The role of the containers that apply, for rights that are given elsewhere"
  value       = aws_cloudformation_stack.terrapulse.outputs["RunnerRole"]
}

output "plan_role" {
  description = "The role of the containers that only plan or check for drift, for rights that are given elsewhere"
  value       = aws_cloudformation_stack.terrapulse.outputs["PlanRole"]
}

output "security_groups" {
  description = "The groups of the containers, which Consul's group must let in"
  value       = aws_cloudformation_stack.terrapulse.outputs["ContainerSecurityGroups"]
}
