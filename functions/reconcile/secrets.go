package main

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/deployment"
)

// connector makes clients of Consul with the secrets that the stack names.
type connector struct {
	settings deployment.Consul
}

func newConnector(_ aws.Config, settings deployment.Consul) *connector {
	return &connector{settings}
}

func (c *connector) connect(ctx context.Context, cfg config.Consul) (consulClient, error) {
	cl, err := consul.New(cfg)
	if err != nil {
		return nil, err
	}
	return &client{Client: cl, again: func(context.Context) (*consul.Client, error) { return nil, nil }}, nil
}
