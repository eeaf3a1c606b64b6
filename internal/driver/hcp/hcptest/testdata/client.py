"""Takes a workspace of HCP Terraform through its life with HashiCorp's Python client.

Arguments: the folder of a module. The client reads TFE_ADDRESS, TFE_TOKEN and SSL_CERT_FILE.
"""

import sys
import time

from pytfe import TFEClient, TFEConfig
from pytfe.errors import NotFound, TFEError
from pytfe.models import (
    CategoryType,
    ConfigurationVersion,
    ConfigurationVersionCreateOptions,
    RunApplyOptions,
    RunCreateOptions,
    RunDiscardOptions,
    RunListForOrganizationOptions,
    Tag,
    VariableCreateOptions,
    Workspace,
    WorkspaceAddTagsOptions,
    WorkspaceCreateOptions,
)

client = TFEClient(TFEConfig.from_env())


def equal(got, want):
    if got != want:
        raise SystemExit(f"got {got!r}, want {want!r}")


def upload(workspace):
    version = client.configuration_versions.create(
        workspace.id, ConfigurationVersionCreateOptions(auto_queue_runs=False)
    )
    client.configuration_versions.upload(version.upload_url, sys.argv[1])
    read = client.configuration_versions.read(version.id)
    equal(read.status.value, "uploaded")
    return ConfigurationVersion(id=read.id)


def wait(run, status):
    for _ in range(600):
        run = client.runs.read(run.id)
        if run.status.value in (status, "errored"):
            equal(run.status.value, status)
            return run
        time.sleep(0.1)
    raise SystemExit(f"run {run.id} is still {run.status}, want {status}")


workspace = client.workspaces.create(
    "acme", WorkspaceCreateOptions(name="python", source_name="Python")
)
client.workspaces.add_tags(workspace.id, WorkspaceAddTagsOptions(tags=[Tag(name="source:cts")]))
equal([t.name for t in client.workspaces.list_tags(workspace.id)], ["source:cts"])
variable = client.variables.create(
    workspace.id,
    VariableCreateOptions(key="SECRET", value="s3cret", category=CategoryType.ENV, sensitive=True),
)
equal(client.variables.read(workspace.id, variable.id).value, None)

version = upload(workspace)
workspace = Workspace(id=workspace.id)
run = client.runs.create(
    RunCreateOptions(workspace=workspace, configuration_version=version, message="by Python", auto_apply=False)
)
run = wait(run, "planned")
equal(run.actions.is_confirmable, True)
active = client.runs.list_for_organization(
    "acme", RunListForOrganizationOptions(status_group="non_final", workspace_names="python")
)
equal([r.id for r in active], [run.id])
equal(client.plans.read(run.plan.id).resource_additions, 1)
equal(client.plans.read_json_output(run.plan.id)["resource_changes"][0]["type"], "terraform_data")
client.runs.apply(run.id, RunApplyOptions(comment="looks good"))
run = wait(run, "applied")
equal([c.body for c in client.comments.list(run.id)], ["looks good"])
try:
    client.runs.apply(run.id)
    raise SystemExit("a run was applied twice")
except TFEError:
    pass
try:
    client.workspaces.safe_delete_by_id(workspace.id)
    raise SystemExit("a workspace with resources was deleted")
except TFEError:
    pass

for discard in (True, False):
    run = client.runs.create(
        RunCreateOptions(workspace=workspace, configuration_version=upload(workspace), is_destroy=True, auto_apply=False)
    )
    run = wait(run, "planned")
    if discard:
        client.runs.discard(run.id, RunDiscardOptions(comment="not now"))
        wait(run, "discarded")
    else:
        client.runs.apply(run.id)
        wait(run, "applied")
client.workspaces.safe_delete_by_id(workspace.id)
try:
    client.workspaces.read_by_id(workspace.id)
    raise SystemExit("the workspace is still there")
except NotFound:
    print("done")
