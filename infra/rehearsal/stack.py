"""Deploys built templates into an AWS that is moto, in this process: packages
a template, translates it as the SAM transform does, creates the stack, and prints
what there is then as JSON. What moto cannot make is in "template" alone.

Each line of stdin is a request:
{"template": path, "name": "...", "parameters": {...}, "buckets": [...], "keep": path}
or, to print only what CloudFormation refuses: {"template": path, "check": [{...}, ...]}
or, to print only what the schemas of its resources refuse: {"template": path, "lint": [{...}, ...]}
Each is answered by a line with {"result": ...} or {"problem": "..."}. One process answers
many, because its imports take longer than a deployment. Moto is empty before each.
"""

import ast
import fcntl
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
import urllib.request

REGION = "eu-west-1"

# Types that moto's CloudFormation does not know, and cannot refer to either.
UNKNOWN = ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard", "AWS::Scheduler::Schedule", "AWS::Lambda::EventInvokeConfig",
           "AWS::Lambda::Url", "AWS::ApiGateway::Deployment", "AWS::ApiGateway::Stage", "Custom::Network", "Custom::Program", "Custom::Protection", "Custom::LinkedRole", "Custom::GroupUse")

os.environ.update(
    AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test", AWS_DEFAULT_REGION=REGION, AWS_REGION=REGION,
    AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull, AWS_EC2_METADATA_DISABLED="true",
    SAM_CLI_TELEMETRY="0", MOTO_ALLOW_NONEXISTENT_REGION="false",
)

import boto3  # noqa: E402
import yaml  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402
from samcli.yamlhelper import yaml_parse  # noqa: E402
from samtranslator.public.translator import ManagedPolicyLoader  # noqa: E402
from samtranslator.translator.transform import transform  # noqa: E402


def main():
    gc.disable()  # to search all modules for garbage again and again would take a fifth of the time
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ["AWS_ENDPOINT_URL"] = f"http://{host}:{port}"
    for line in sys.stdin:
        try:
            answer = {"result": answered(json.loads(line))}
        except Problem as problem:
            answer = {"problem": str(problem)}
        except Exception:
            answer = {"problem": traceback.format_exc()}
        print(json.dumps(answer, default=str), file=answers, flush=True)


class Problem(Exception):
    """What is wrong with a template or its parameters."""


def answered(asked):
    if "check" in asked:
        with open(asked["template"]) as f:
            template = yaml_parse(f.read())
        return [refused(template, values(template, p)) for p in asked["check"]]
    if "lint" in asked:
        return linted(asked["template"], asked["lint"])
    urllib.request.urlopen(urllib.request.Request(os.environ["AWS_ENDPOINT_URL"] + "/moto-api/reset", method="POST")).close()
    gc.collect()  # the functions of the last stack
    return deploy(asked)


def client(service):
    return boto3.client(service, region_name=REGION)


def deploy(asked):
    s3 = client("s3")
    for bucket in ["artifacts", *(asked["buckets"] or [])]:
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    if "release" in asked:
        release = asked["release"]
        s3.create_bucket(Bucket=release["bucket"], CreateBucketConfiguration={"LocationConstraint": REGION})
        for file in os.listdir(release["folder"]):
            s3.upload_file(os.path.join(release["folder"], file), release["bucket"], release["prefix"] + "/" + file)
    template = translate(package(asked["template"], asked.get("keep")), asked["parameters"])
    if problem := refused(template, values(template, asked["parameters"])):
        raise Problem(problem)

    bus = asked["parameters"].get("EventBus")
    if bus and bus != "default":
        client("events").create_event_bus(Name=bus)

    template = installed(template, values(template, asked["parameters"]))
    cfn, name = client("cloudformation"), asked["name"]
    cfn.create_stack(
        StackName=name,
        TemplateBody=json.dumps(without_unknown(template)),
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in asked["parameters"].items()],
    )
    stack = cfn.describe_stacks(StackName=name)["Stacks"][0]
    if stack["StackStatus"] != "CREATE_COMPLETE":
        raise Problem(f"stack {name}: {stack['StackStatus']}: {stack.get('StackStatusReason', '')}")
    resources = {}
    for page in cfn.get_paginator("list_stack_resources").paginate(StackName=name):
        for r in page["StackResourceSummaries"]:
            if r["PhysicalResourceId"]:
                resources[r["LogicalResourceId"]] = {"type": r["ResourceType"], "id": r["PhysicalResourceId"]}

    attach_policies(template, resources)

    def of(kind):
        return {k: r["id"] for k, r in resources.items() if r["type"] == kind}

    return {
        "outputs": {o["OutputKey"]: o["OutputValue"] for o in stack.get("Outputs", [])},
        "resources": resources,
        "functions": {k: function(v) for k, v in of("AWS::Lambda::Function").items()},
        "roles": {k: statements(v) for k, v in of("AWS::IAM::Role").items()},
        "policies": policies(template, values(template, asked["parameters"]) | {"AWS::StackName": name}, resources),
        "taskDefinitions": {k: task_definition(v) for k, v in of("AWS::ECS::TaskDefinition").items()},
        "rules": {k: rule(v, bus if k == "NotificationRule" and bus else "default") for k, v in of("AWS::Events::Rule").items()},
        "alarms": alarms(template, values(template, asked["parameters"]) | {"conditions": template["Conditions"]}),
        "template": template,
    }


def package(template, keep):
    """Uploads what was built, as `sam deploy` does first. If keep is a folder, what is uploaded is kept there
    for the next deployment of the same build: to compress the functions takes ten times as long."""
    if not keep:
        return sam_package(template, os.path.join(tempfile.mkdtemp(), "packaged.yaml"))
    os.makedirs(keep, exist_ok=True)
    with open(os.path.join(keep, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = os.path.join(keep, str(newest(os.path.dirname(template))))
        out, s3 = os.path.join(folder, "packaged.yaml"), client("s3")
        if not os.path.exists(out):
            os.makedirs(os.path.join(folder, "objects"), exist_ok=True)
            sam_package(template, out + ".new")
            for found in s3.list_objects_v2(Bucket="artifacts").get("Contents", []):
                s3.download_file("artifacts", found["Key"], os.path.join(folder, "objects", found["Key"]))
            os.rename(out + ".new", out)
        else:
            for name in os.listdir(os.path.join(folder, "objects")):
                s3.upload_file(os.path.join(folder, "objects", name), "artifacts", name)
        return load(out)


def load(path):
    with open(path) as f:
        return yaml.load(f, Loader=yaml.CSafeLoader)


def newest(folder):
    """When the latest of the files in a folder was written, in nanoseconds."""
    return max(os.lstat(os.path.join(at, name)).st_mtime_ns for at, _, names in os.walk(folder) for name in names)


# Runs the SAM command line with another compression: the default makes the functions a tenth smaller
# than this, in three times the time.
FAST_SAM = "import runpy, sys, zlib; zlib.Z_DEFAULT_COMPRESSION = 1; sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')"


def sam_package(template, out):
    sam = os.path.join(os.path.dirname(sys.executable), "sam")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", FAST_SAM, sam, "package", "--template-file", template, "--s3-bucket", "artifacts", "--output-template-file", out],
            capture_output=True, text=True, cwd=folder,
        )
    if done.returncode:
        raise Problem(f"sam package: {done.stdout}{done.stderr}")
    return load(out)


def translate(template, parameters):
    """What CloudFormation does with Transform: AWS::Serverless-2016-10-31."""
    return transform(template, values(template, parameters), ManagedPolicyLoader(client("iam")))


def values(template, parameters):
    return {k: p["Default"] for k, p in template["Parameters"].items() if "Default" in p} | parameters


def refused(template, given):
    """What CloudFormation says before it makes anything, for patterns, values and rules; "" if nothing."""
    for name, p in template["Parameters"].items():
        if name not in given:
            return f"Parameters: [{name}] must have values"
        value = str(given[name])
        if not re.search(p.get("AllowedPattern", ""), value) or len(value) > p.get("MaxLength", 4096) or value not in [str(v) for v in p.get("AllowedValues", [value])]:
            return f"Parameter {name} failed to satisfy constraint: {p.get('ConstraintDescription', value)}"
    for rule in template["Rules"].values():
        if not holds(rule.get("RuleCondition", True), given):
            continue
        for a in rule["Assertions"]:
            if not holds(a["Assert"], given):
                return f"Template validation error: {a['AssertDescription']}"
    return ""


def holds(test, given):
    if not isinstance(test, dict):
        return test
    (kind, of), = test.items()
    if kind == "Ref":
        return str(given[of])
    if kind == "Condition":
        return holds(given["conditions"][of], given)
    if kind == "Fn::Sub":
        return re.sub(r"\$\{(\w+)\}", lambda m: str(given[m[1]]), of)
    of = [holds(o, given) for o in of]
    return {
        "Fn::Equals": lambda: of[0] == of[1],
        "Fn::Not": lambda: not of[0],
        "Fn::And": lambda: all(of),
        "Fn::Or": lambda: any(of),
        "Fn::Contains": lambda: of[1] in of[0],
        "Fn::Join": lambda: of[0].join(of[1]) if isinstance(of[1], list) else of[1],  # else a parameter that is a list
        "Fn::Split": lambda: of[1].split(of[0]),
        "Fn::Select": lambda: of[1][int(of[0])],
    }[kind]()


PSEUDO = {
    "AWS::Partition": "aws", "AWS::Region": REGION, "AWS::AccountId": "123456789012", "AWS::URLSuffix": "amazonaws.com", "AWS::StackName": "terrapulse",
    "AWS::StackId": f"arn:aws:cloudformation:{REGION}:123456789012:stack/terrapulse/11111111-2222-3333-4444-555555555555",
}


def linted(path, each):
    """What cfn-lint says of the resources that the template makes with each of these parameters. Warnings are of the
    template as it is written: `make lint`."""
    from cfnlint.config import ConfigMixIn  # here, since it takes a second
    from cfnlint.decode.decode import decode_str
    from cfnlint.runner import Runner

    linter, found = Runner(ConfigMixIn(regions=[REGION], ignore_checks=["W", "I"])), []
    for parameters in each:
        with open(path) as f:
            template = yaml_parse(f.read())
        template["Globals"]["Function"]["CodeUri"] = "s3://bucket/key"
        for r in template["Resources"].values():
            if "ContentUri" in r.get("Properties", {}):
                r["Properties"]["ContentUri"] = "s3://bucket/key"
        given = values(template, parameters)
        made, _ = decode_str(json.dumps(resolved(translate(template, parameters), given)))
        found.append([f"{'/'.join(map(str, m.path))}: {m}" for m in linter.validate_template(made)])
    return found


ABSENT = object()  # AWS::NoValue


def resolved(template, given):
    """The resources and outputs of a translated template, with the values of its parameters and conditions. What
    depends on a resource stays a function."""
    lists = [k for k, p in template["Parameters"].items() if p["Type"].startswith(("List", "CommaDelimitedList"))]
    known = PSEUDO | {k: v.split(",") if k in lists else str(v) for k, v in given.items()}
    conditions = {k: holds(c, PSEUDO | given | {"conditions": template["Conditions"]}) for k, c in template["Conditions"].items()}

    def one(value):
        if isinstance(value, list):
            return [v for v in map(one, value) if v is not ABSENT]
        if not isinstance(value, dict):
            return value
        kind, of = next(iter(value.items()), ("", None))
        if kind == "Ref":
            return ABSENT if of == "AWS::NoValue" else known.get(of, value)
        if kind == "Fn::If":
            return one(of[1 if conditions[of[0]] else 2])
        if kind == "Fn::Sub":
            return substitute(*([of] if isinstance(of, str) else of))
        result = {k: o for k, o in ((k, one(v)) for k, v in value.items()) if o is not ABSENT}
        of = result.get(kind)
        if kind == "Fn::FindInMap":
            return template["Mappings"][of[0]][of[1]][of[2]]
        if kind == "Fn::Join" and all(isinstance(v, str) for v in of[1]):
            return of[0].join(of[1])
        if kind == "Fn::Split" and isinstance(of[1], str):
            return of[1].split(of[0])
        if kind == "Fn::Select" and isinstance(of[1], list):
            return of[1][int(of[0])]
        return result

    def substitute(text, variables={}):
        variables = {k: one(v) for k, v in variables.items()}
        texts = {k: v for k, v in (known | variables).items() if isinstance(v, str)}
        text = re.sub(r"\$\{([^}!]+)\}", lambda m: texts.get(m[1], m[0]), text)
        left = {k: v for k, v in variables.items() if k not in texts}
        return text if "${" not in text else {"Fn::Sub": [text, left] if left else text}

    def made(part):
        return {k: {p: one(v) for p, v in r.items() if p != "Condition"} for k, r in template[part].items() if conditions.get(r.get("Condition"), True)}

    return {"AWSTemplateFormatVersion": "2010-09-09", "Resources": made("Resources"), "Outputs": made("Outputs")}


def installed(template, given):
    """The template with the attributes of its custom resources, since moto invokes no function, and of its
    function URLs, and without the items of lists that are no value, which moto keeps."""
    vpc = client("ec2").describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"][0]["VpcId"]
    attributes = {"Network": {"VpcId": vpc, "Ipv6": "false", "DualStack": "false", "ContainerDualStack": "false"},
                  "Program": {"Url": "s3://installed/program", "Sha256": "0" * 64}, "ApiFunctionUrl": {"FunctionUrl": f"https://id.lambda-url.{REGION}.on.aws/"}}
    given = given | {"conditions": template["Conditions"]}

    def put(value):
        if isinstance(value, list):
            return [put(v) for v in value if not absent(v)]
        if not isinstance(value, dict):
            return value
        resource, _, attribute = ".".join(value["Fn::GetAtt"]).partition(".") if "Fn::GetAtt" in value else ("", "", "")
        if resource in attributes:
            return attributes[resource][attribute]
        return {k: [put(o) for o in v] if k == "Fn::If" else put(v) for k, v in value.items()}

    def absent(value):
        if not isinstance(value, dict) or "Fn::If" not in value:
            return False
        condition, yes, no = value["Fn::If"]
        return (yes if holds({"Condition": condition}, given) else no) == {"Ref": "AWS::NoValue"}

    return {**template, **{part: {k: put(v) for k, v in template[part].items()} for part in ("Resources", "Outputs")}}


def attach_policies(template, resources):
    """Attaches the stack's own managed policies to its roles, which moto does not do."""
    for name, r in template["Resources"].items():
        given = r["Properties"].get("ManagedPolicyArns", []) if r["Type"] == "AWS::IAM::Role" else []
        for arn in given if isinstance(given, list) else []:
            policy = arn["Fn::If"][1].get("Ref") if "Fn::If" in arn else None
            if name in resources and policy in resources:
                client("iam").attach_role_policy(RoleName=resources[name]["id"], PolicyArn=resources[policy]["id"])


def alarms(template, given):
    """Where each alarm goes."""
    def chosen(value):
        if isinstance(value, list):
            return [chosen(v) for v in value]
        if "Fn::If" in value:
            condition, yes, no = value["Fn::If"]
            return chosen(yes if holds({"Condition": condition}, given) else no)
        return given.get(value["Ref"], value["Ref"])

    found = {k: chosen(r["Properties"]["AlarmActions"]) for k, r in template["Resources"].items() if r["Type"] == "AWS::CloudWatch::Alarm"}
    return {k: [] if actions == "AWS::NoValue" else actions for k, actions in found.items()}


def without_unknown(template):
    gone = {k for k, r in template["Resources"].items() if r["Type"] in UNKNOWN}
    left = {k: {p: v for p, v in r.items() if not (p == "DependsOn" and set([v] if isinstance(v, str) else v) & gone)}
            for k, r in template["Resources"].items() if k not in gone}
    outputs = {k: o for k, o in template["Outputs"].items() if not any("${%s}" % g in json.dumps(o) or '"%s"' % g in json.dumps(o) for g in gone)}
    return {**template, "Resources": left, "Outputs": outputs}


def function(name):
    c = client("lambda").get_function_configuration(FunctionName=name)
    return {
        "name": name,
        "environment": {k: str(v) for k, v in c.get("Environment", {}).get("Variables", {}).items() if v is not None},
        "runtime": c.get("Runtime"),
        "handler": c.get("Handler"),
        "timeout": c.get("Timeout"),
        "memory": c.get("MemorySize"),
        "role": c["Role"],
        "vpc": {k: v for k, v in c.get("VpcConfig", {}).items() if k in ("SubnetIds", "SecurityGroupIds")},
    }


def statements(role):
    """What the role allows, wherever that is written down."""
    iam, documents = client("iam"), []
    for name in iam.list_role_policies(RoleName=role)["PolicyNames"]:
        documents.append(iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"])
    for p in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
        version = iam.get_policy(PolicyArn=p["PolicyArn"])["Policy"]["DefaultVersionId"]
        documents.append(iam.get_policy_version(PolicyArn=p["PolicyArn"], VersionId=version)["PolicyVersion"]["Document"])
    # Moto keeps a policy of a stack as Python writes it.
    documents = [ast.literal_eval(d) if isinstance(d, str) else d for d in documents]
    return [normal(s) for d in documents for s in ([d["Statement"]] if isinstance(d["Statement"], dict) else d["Statement"])]


def normal(statement):
    listed = {k: [statement[k]] if isinstance(statement.get(k), str) else statement.get(k, []) for k in ("Action", "Resource")}
    # Only in AWS, the ARN of a log group ends with all its streams.
    listed["Resource"] = [r + ":*" if ":log-group:" in r else r for r in listed["Resource"]]
    return statement | listed


def policies(template, given, resources):
    """What the stack's resources allow others, most of which moto does not make, and who may assume its roles."""
    arns = {"AWS::S3::Bucket": "arn:aws:s3:::", "AWS::SQS::Queue": f"arn:aws:sqs:{REGION}:123456789012:", "AWS::Events::Rule": f"arn:aws:events:{REGION}:123456789012:rule/",
            "AWS::Lambda::Function": f"arn:aws:lambda:{REGION}:123456789012:function:"}

    def named(name):
        resource, _, attribute = name.partition(".")
        kind, id = resources[resource]["type"], resources[resource]["id"]
        return arns[kind] + id.rsplit("/", 1)[-1] if attribute else id

    def one(value):
        if isinstance(value, list):
            return [one(v) for v in value]
        if not isinstance(value, dict):
            return value
        kind, of = next(iter(value.items()), ("", None))
        if kind in ("Ref", "Fn::GetAtt"):
            return named(of if isinstance(of, str) else ".".join(of))
        if kind == "Fn::Sub":
            return re.sub(r"\$\{([^}]+)\}", lambda m: named(m[1]), of)
        return {k: one(v) for k, v in value.items()}

    found = {}
    for name, r in resolved(template, given)["Resources"].items():
        p = r.get("Properties", {})
        if "PolicyDocument" in p and "Policy" in r["Type"] and not r["Type"].startswith("AWS::IAM"):
            found[name] = one(p["PolicyDocument"])
        elif "AssumeRolePolicyDocument" in p:
            found[name] = one(p["AssumeRolePolicyDocument"])
        elif r["Type"] == "AWS::Lambda::Permission" and "SourceArn" in p:
            function = p["FunctionName"].get("Ref") or p["FunctionName"]["Fn::GetAtt"][0]
            found[name] = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": {"Service": p["Principal"]}, "Action": p["Action"],
                           "Resource": named(function + ".Arn"), "Condition": {"ArnLike": {"aws:SourceArn": one(p["SourceArn"])}}}}
    return found


def task_definition(arn):
    found = client("ecs").describe_task_definition(taskDefinition=arn)["taskDefinition"]
    for c in found["containerDefinitions"]:
        for key in ("environment", "secrets"):  # AWS drops what is no value, moto keeps it
            c[key] = [v for v in c.get(key, []) if v]
    return found


def rule(name, bus):
    name = name.rsplit("/", 1)[-1]
    events = client("events")
    found = events.describe_rule(Name=name, EventBusName=bus)
    targets = events.list_targets_by_rule(Rule=name, EventBusName=bus)["Targets"]
    return {"pattern": json.loads(found["EventPattern"]), "state": found["State"], "targets": [t["Arn"] for t in targets]}


if __name__ == "__main__":
    main()
