// Package still is a Terraform provider that has no effect. The providers for tests embed Provider, and
// replace what they need.
package still

import (
	"context"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Provider has the calls that a plan and an apply need, except those that say what is planned and applied.
type Provider struct {
	tfprotov6.ProviderServer
	Kind tftypes.Type // of the values of all resources
}

// GetMetadata implements tfprotov6.ProviderServer.
func (Provider) GetMetadata(context.Context, *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse, error) {
	return &tfprotov6.GetMetadataResponse{}, nil
}

// GetResourceIdentitySchemas implements tfprotov6.ProviderServer.
func (Provider) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{}, nil
}

// ValidateProviderConfig implements tfprotov6.ProviderServer.
func (Provider) ValidateProviderConfig(_ context.Context, r *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: r.Config}, nil
}

// ConfigureProvider implements tfprotov6.ProviderServer.
func (Provider) ConfigureProvider(context.Context, *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	return &tfprotov6.ConfigureProviderResponse{}, nil
}

// StopProvider implements tfprotov6.ProviderServer.
func (Provider) StopProvider(context.Context, *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{}, nil
}

// ValidateResourceConfig implements tfprotov6.ProviderServer.
func (Provider) ValidateResourceConfig(context.Context, *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	return &tfprotov6.ValidateResourceConfigResponse{}, nil
}

// UpgradeResourceState implements tfprotov6.ProviderServer.
func (p Provider) UpgradeResourceState(_ context.Context, r *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	value, err := r.RawState.Unmarshal(p.Kind)
	if err != nil {
		return nil, err
	}
	state, err := tfprotov6.NewDynamicValue(p.Kind, value)
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: &state}, err
}

// ReadResource implements tfprotov6.ProviderServer.
func (Provider) ReadResource(_ context.Context, r *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	return &tfprotov6.ReadResourceResponse{NewState: r.CurrentState}, nil
}

// Change edits the attributes of a resource that is not deleted.
func (p Provider) Change(v *tfprotov6.DynamicValue, edit func(map[string]tftypes.Value) error) (*tfprotov6.DynamicValue, error) {
	value, err := v.Unmarshal(p.Kind)
	if err != nil || value.IsNull() {
		return v, err
	}
	all := map[string]tftypes.Value{}
	if err := value.As(&all); err != nil {
		return nil, err
	}
	if err := edit(all); err != nil {
		return nil, err
	}
	next, err := tfprotov6.NewDynamicValue(p.Kind, tftypes.NewValue(p.Kind, all))
	return &next, err
}
