variable "region" {
  description = "Region of the stack"
  type        = string
}

variable "name" {
  description = "Name of the stack, which terrapulse's commands take as -stack"
  type        = string
  default     = "terrapulse"
}

variable "template_url" {
  description = "URL of the packaged template in a bucket of this region"
  type        = string
}

variable "consul_address" {
  description = "URL of Consul"
  type        = string
}

variable "secret_arn" {
  description = "ARN of the secret with Consul's token in JSON; empty without ACLs"
  type        = string
  default     = ""
}

variable "subnets" {
  description = "Private subnets from which Consul, AWS and the internet can be reached"
  type        = list(string)
}

variable "act_arns" {
  description = "ARNs of the IAM roles and users that may change things through the HTTP API; an ARN may contain asterisks"
  type        = list(string)
}

variable "runner_policy_arns" {
  description = "IAM policies with the rights that the tasks' providers need"
  type        = list(string)
  default     = []
}

variable "parameters" {
  description = "Further parameters of the template, by their names in docs/deploy.md"
  type        = map(string)
  default     = {}
}

variable "tasks" {
  description = "Folder with the task files and their modules, whose paths are relative to it"
  type        = string
}

variable "tags" {
  description = "Tags of the stack and of what it creates"
  type        = map(string)
  default     = {}
}
