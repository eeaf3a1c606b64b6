package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// linkedRole makes sure that ECS can assume its service-linked role before the cluster is created. In an
// account that has never used ECS, ECS creates the role with the first cluster, and assumes it in the
// same moment, before IAM knows it everywhere: the first deployment would fail.
// https://github.com/aws-cloudformation/cloudformation-coverage-roadmap/issues/818
type linkedRole struct {
	ECS      *ecs.Client
	Patience time.Duration // until the rights of the function are in force
	Known    time.Duration // until ECS can assume a new role
	Log      *slog.Logger
}

// handle creates a cluster as that of the stack, and deletes it at once: only ECS itself can try
// whether it can assume the role. Later requests find a cluster that was created.
func (l *linkedRole) handle(ctx context.Context, e cfn.Event) (id string, data map[string]any, err error) {
	const name = "AWSServiceRoleForECS"
	if e.RequestType == cfn.RequestDelete {
		return e.PhysicalResourceID, nil, nil
	}
	if e.RequestType == cfn.RequestUpdate {
		return name, nil, nil
	}
	probe := property(e.ResourceProperties, "Probe")
	err = patiently(ctx, l.Known, func(ctx context.Context) error {
		_, err := l.ECS.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: &probe, CapacityProviders: []string{"FARGATE"}})
		return err
	}, isNotAssumed)
	if isDenied(err) {
		l.Log.Warn("cannot check that ECS can assume its service-linked role: the right to create a cluster is missing; if the deployment fails at Cluster, deploy again", "cluster", probe, "error", err)
		return name, nil, nil
	}
	if err != nil {
		return name, nil, fmt.Errorf("try whether ECS can assume its service-linked role: %w: deploy again in some minutes", err)
	}
	beingCreated := func(error) bool { return true }
	err = patiently(ctx, l.Patience, func(ctx context.Context) error {
		_, err := l.ECS.DeleteCluster(ctx, &ecs.DeleteClusterInput{Cluster: &probe})
		if errors.As(err, new(*types.ClusterNotFoundException)) { // an earlier request has deleted it
			return nil
		}
		return err
	}, beingCreated)
	if err != nil {
		l.Log.Warn("an empty cluster stays, which costs nothing: delete it", "cluster", probe, "error", err)
	}
	return name, nil, nil
}

// isNotAssumed reports whether ECS cannot assume the role yet.
func isNotAssumed(err error) bool {
	return strings.Contains(err.Error(), "service linked role")
}
