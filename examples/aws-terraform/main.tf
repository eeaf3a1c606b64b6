# Terrapulse in AWS, deployed by Terraform in place of SAM. README.md says where the template comes from.

terraform {
  required_version = ">= 1.4"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

provider "aws" {
  region = var.region
}

resource "aws_cloudformation_stack" "terrapulse" {
  name         = var.name
  template_url = var.template_url

  # The template creates roles, and is written for the SAM transform.
  capabilities = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]

  # If the first deployment fails, nothing remains.
  on_failure = "DELETE"

  parameters = merge({
    ConsulAddress    = var.consul_address
    SecretArns       = var.secret_arn
    Subnets          = join(",", var.subnets)
    ActArns          = join(",", var.act_arns)
    RunnerPolicyArns = join(",", var.runner_policy_arns)
  }, var.parameters)

  tags = var.tags

  timeouts {
    create = "30m"
    update = "30m"
    delete = "60m"
  }

  lifecycle {
    # The table has what was applied, and the bucket has bundles and logs.
    prevent_destroy = true
  }
}

# Pushes the task files whenever one of them, or the stack, has changed.
resource "terraform_data" "bundle" {
  triggers_replace = {
    stack   = aws_cloudformation_stack.terrapulse.id
    version = aws_cloudformation_stack.terrapulse.outputs["Version"]
    files   = { for file in fileset(var.tasks, "**") : file => filesha256("${var.tasks}/${file}") }
  }

  provisioner "local-exec" {
    command     = "terrapulse bundle push -stack=\"$STACK\" -config-dir=."
    working_dir = var.tasks
    environment = {
      STACK      = aws_cloudformation_stack.terrapulse.name
      AWS_REGION = var.region
    }
  }
}
