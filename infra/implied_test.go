package infra_test

// implied are actions that no code of Terrapulse names, and why they are needed.
var implied = map[string]map[string]string{
	"InstallRole": {
		"logs:CreateLogStream": "Lambda", "logs:PutLogEvents": "Lambda", "s3:DeleteObjectVersion": "S3, for a deletion of a version",
		"iam:CreateServiceLinkedRole": "ECS, which creates its role with the first cluster",
		"kms:Decrypt":                 "S3", "kms:GenerateDataKey": "S3",
	},
	"ReconcileRole": {
		"logs:CreateLogStream": "Lambda", "logs:PutLogEvents": "Lambda",
		"sqs:SendMessage": "Lambda, for an invocation that failed",
		"kms:Decrypt":     "the services that keep data", "kms:Encrypt": "DynamoDB", "kms:GenerateDataKey": "S3", "kms:DescribeKey": "DynamoDB",
	},
	"SettleRole": {
		"logs:CreateLogStream": "Lambda", "logs:PutLogEvents": "Lambda", "sqs:SendMessage": "Lambda, for an event that failed",
		"kms:Decrypt": "DynamoDB", "kms:Encrypt": "DynamoDB", "kms:GenerateDataKey": "DynamoDB", "kms:DescribeKey": "DynamoDB",
	},
	"NotificationRole": {
		"logs:CreateLogStream": "Lambda", "logs:PutLogEvents": "Lambda",
		"kms:Decrypt": "a secret with this key", "kms:Encrypt": "the shared policy", "kms:GenerateDataKey": "the shared policy", "kms:DescribeKey": "the shared policy",
	},
	"ApiRole": {
		"logs:CreateLogStream": "Lambda", "logs:PutLogEvents": "Lambda",
		"kms:Decrypt": "the services that keep data", "kms:Encrypt": "DynamoDB", "kms:GenerateDataKey": "DynamoDB", "kms:DescribeKey": "DynamoDB",
	},
	"RunnerRole": {
		"s3:GetObject": "Terraform's state", "s3:PutObject": "Terraform's state", "s3:DeleteObject": "Terraform's lock file", "s3:ListBucket": "Terraform's workspaces",
		"sts:AssumeRole": "aws_role of a task, through the SDK's provider of credentials",
		"kms:Decrypt":    "the services that keep data", "kms:Encrypt": "DynamoDB", "kms:GenerateDataKey": "S3", "kms:DescribeKey": "DynamoDB",
	},
}

// given are actions on resources that a user's own templates name.
var given = map[string]map[string]string{
	"RunnerRole": {"secretsmanager:GetSecretValue": "RunnerPolicyArns", "ssm:GetParameter": "RunnerPolicyArns"},
}

// unused are collections that the code of a program names, and that it does not use in AWS.
var unused = map[string]map[string]string{
	"ReconcileRole": {"cluster": "only instances of a cluster write it"},
	"ApiRole":       {"cluster": "only instances of a cluster write it", "runner": "it lists the instances of a cluster"},
	"RunnerRole":    {"audit-*": "for decisions in HCP Terraform, whose runs functions/reconcile executes"},
}

// noCollections begin texts of package record that are no keys of records.
var noCollections = []string{"application", "reference", "tasks", "text"}
