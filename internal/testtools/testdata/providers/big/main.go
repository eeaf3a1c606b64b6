// Command big is a Terraform provider for tests that is as large as that of a cloud: it has
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

	"providers/still"
)

const (
	types      = 1000
	attributes = 40
)

func main() {
	note("start")
	err := tf6server.Serve("registry.terraform.io/hashicorp/big", func() tfprotov6.ProviderServer { return provider{still.Provider{Kind: resource(0).ValueType()}} })
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

type provider struct{ still.Provider }

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

func (provider) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	note("schema")
	all := map[string]*tfprotov6.Schema{}
	for i := range types {
		all[fmt.Sprintf("big_thing%d", i)] = resource(i)
	}
	return &tfprotov6.GetProviderSchemaResponse{Provider: &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{}}, ResourceSchemas: all,
		ServerCapabilities: &tfprotov6.ServerCapabilities{GetProviderSchemaOptional: true}}, nil
}

func (provider) ConfigureProvider(context.Context, *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	note("configure")
	return &tfprotov6.ConfigureProviderResponse{}, nil
}

func (p provider) PlanResourceChange(_ context.Context, r *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	planned, err := p.Change(r.ProposedNewState, identify(tftypes.UnknownValue))
	return &tfprotov6.PlanResourceChangeResponse{PlannedState: planned}, err
}

func (p provider) ApplyResourceChange(_ context.Context, r *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	state, err := p.Change(r.PlannedState, identify("big"))
	return &tfprotov6.ApplyResourceChangeResponse{NewState: state}, err
}

// identify gives a resource an id if it has none.
func identify(id any) func(map[string]tftypes.Value) error {
	return func(all map[string]tftypes.Value) error {
		if now := all["id"]; !now.IsKnown() || now.IsNull() {
			all["id"] = tftypes.NewValue(tftypes.String, id)
		}
		return nil
	}
}
