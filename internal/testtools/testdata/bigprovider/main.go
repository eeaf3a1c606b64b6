// Command bigprovider is a Terraform provider for tests that is as large as that of a cloud: it has
// 1,000 types of resources. It creates nothing, and notes in the file that BIG_CALLS names what
// Terraform calls.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

const (
	types      = 1000
	attributes = 40
)

func main() {
	note("start")
	err := tf6server.Serve("registry.terraform.io/hashicorp/big", func() tfprotov6.ProviderServer { return provider{} })
	if err != nil {
		log.Fatal(err)
	}
}

// note writes a line about a call.
func note(call string) {
	f, err := os.OpenFile(os.Getenv("BIG_CALLS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintln(f, call)
}

// provider has the calls that a plan and an apply need.
type provider struct{ tfprotov6.ProviderServer }

// resource is the schema of all types, whose descriptions differ.
func resource(kind int) *tfprotov6.Schema {
	block := &tfprotov6.SchemaBlock{Attributes: []*tfprotov6.SchemaAttribute{
		{Name: "id", Type: tftypes.String, Computed: true, Description: "The identifier of the resource."},
		{Name: "name", Type: tftypes.String, Required: true, Description: "The name of the resource."},
	}}
	for i := range attributes {
		block.Attributes = append(block.Attributes, &tfprotov6.SchemaAttribute{Name: fmt.Sprintf("attribute_%d", i), Type: tftypes.String, Optional: true,
			Description: fmt.Sprintf("Attribute %d of the type of resources with number %d.", i, kind)})
	}
	return &tfprotov6.Schema{Block: block}
}

func (provider) GetMetadata(context.Context, *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse, error) {
	return &tfprotov6.GetMetadataResponse{}, nil
}

func (provider) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	note("schema")
	all := map[string]*tfprotov6.Schema{}
	for i := range types {
		all[fmt.Sprintf("big_thing%d", i)] = resource(i)
	}
	return &tfprotov6.GetProviderSchemaResponse{Provider: &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{}}, ResourceSchemas: all,
		ServerCapabilities: &tfprotov6.ServerCapabilities{GetProviderSchemaOptional: true}}, nil
}

func (provider) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{}, nil
}

func (provider) ValidateProviderConfig(_ context.Context, r *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: r.Config}, nil
}

func (provider) ConfigureProvider(context.Context, *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	note("configure")
	return &tfprotov6.ConfigureProviderResponse{}, nil
}

func (provider) StopProvider(context.Context, *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{}, nil
}

func (provider) ValidateResourceConfig(context.Context, *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	return &tfprotov6.ValidateResourceConfigResponse{}, nil
}

func (provider) UpgradeResourceState(_ context.Context, r *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	value, err := r.RawState.Unmarshal(kind)
	if err != nil {
		return nil, err
	}
	state, err := tfprotov6.NewDynamicValue(kind, value)
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: &state}, err
}

func (provider) ReadResource(_ context.Context, r *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	return &tfprotov6.ReadResourceResponse{NewState: r.CurrentState}, nil
}

func (provider) PlanResourceChange(_ context.Context, r *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	planned, err := withID(r.ProposedNewState, tftypes.NewValue(tftypes.String, tftypes.UnknownValue))
	return &tfprotov6.PlanResourceChangeResponse{PlannedState: planned}, err
}

func (provider) ApplyResourceChange(_ context.Context, r *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	state, err := withID(r.PlannedState, tftypes.NewValue(tftypes.String, "big"))
	return &tfprotov6.ApplyResourceChangeResponse{NewState: state}, err
}

// kind is the type of the values of all resources.
var kind = func() tftypes.Object {
	all := map[string]tftypes.Type{}
	for _, a := range resource(0).Block.Attributes {
		all[a.Name] = a.Type
	}
	return tftypes.Object{AttributeTypes: all}
}()

// withID gives a resource an id if it has none and is not deleted.
func withID(v *tfprotov6.DynamicValue, id tftypes.Value) (*tfprotov6.DynamicValue, error) {
	value, err := v.Unmarshal(kind)
	if err != nil || value.IsNull() {
		return v, err
	}
	var all map[string]tftypes.Value
	if err := value.As(&all); err != nil {
		return nil, err
	}
	if now := all["id"]; now.IsKnown() && !now.IsNull() {
		return v, nil
	}
	all["id"] = id
	next, err := tfprotov6.NewDynamicValue(kind, tftypes.NewValue(kind, all))
	return &next, err
}
