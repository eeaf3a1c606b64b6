package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/smithy-go"

	"github.com/terrapulse/terrapulse/internal/base/awsjson"
)

// linkedRole makes sure that ECS has its service-linked role before the cluster is created. Otherwise
// ECS creates the role with the cluster of an account that has never used ECS, and assumes it in the
// same moment, before IAM knows it everywhere: the first deployment fails.
// https://github.com/aws-cloudformation/cloudformation-coverage-roadmap/issues/818
type linkedRole struct {
	IAM      *query
	ECS      *awsjson.Client
	Patience time.Duration // until the rights of the function are in force
	Known    time.Duration // until ECS can assume a new role
	Log      *slog.Logger
}

// iamLimit limits one request to IAM, which cannot be reached from subnets with VPC endpoints only.
const iamLimit = 20 * time.Second

// handle creates the role if there is none. Deleting the resource does nothing: everything in the
// account that uses ECS shares the role. If the role cannot be created here, it may exist: the
// creation of the cluster shows it.
func (l *linkedRole) handle(ctx context.Context, e cfn.Event) (id string, data map[string]any, err error) {
	const name = "AWSServiceRoleForECS"
	if e.RequestType == cfn.RequestDelete {
		return e.PhysicalResourceID, nil, nil
	}
	created, err := l.create(ctx)
	if err != nil {
		l.Log.Warn("cannot create the service-linked role of ECS: ECS creates it with the cluster if it is missing", "error", err)
		return name, nil, nil
	}
	if !created {
		return name, nil, nil
	}
	l.Log.Info("the service-linked role of ECS was created", "role", name)
	if err := l.awaitAssumed(ctx, property(e.ResourceProperties, "Probe")); err != nil {
		return name, nil, fmt.Errorf("ECS cannot assume its new service-linked role: %w: deploy again in some minutes", err)
	}
	return name, nil, nil
}

// create creates the role, and reports whether it did: false if the role exists.
func (l *linkedRole) create(ctx context.Context) (bool, error) {
	err := patiently(ctx, l.Patience, isUnauthorized, func() error {
		ctx, stop := context.WithTimeout(ctx, iamLimit)
		defer stop()
		return l.IAM.call(ctx, "CreateServiceLinkedRole", url.Values{"AWSServiceName": {"ecs.amazonaws.com"}}, new(struct{}))
	})
	if e := new(queryError); errors.As(err, &e) && e.first().Code == "InvalidInput" && strings.Contains(e.first().Message, "has been taken") {
		return false, nil
	}
	return err == nil, err
}

// awaitAssumed waits until ECS can assume the role, which only ECS itself can try: it does when a
// cluster with capacity providers is created. The cluster is deleted at once.
func (l *linkedRole) awaitAssumed(ctx context.Context, probe string) error {
	in := map[string]any{"clusterName": probe, "capacityProviders": []string{"FARGATE"}}
	err := patiently(ctx, l.Known, isNotAssumed, func() error { return l.ECS.Call(ctx, awsjson.CreateCluster, "", in, new(struct{})) })
	if isCode(err, "AccessDeniedException") {
		l.Log.Warn("cannot check that ECS can assume its role: the right to create a cluster is missing", "cluster", probe, "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	still := func(error) bool { return true } // it is still being created
	err = patiently(ctx, l.Patience, still, func() error {
		return l.ECS.Call(ctx, awsjson.DeleteCluster, "", map[string]any{"cluster": probe}, new(struct{}))
	})
	if err != nil {
		l.Log.Warn("an empty cluster stays, which costs nothing: delete it", "cluster", probe, "error", err)
	}
	return nil
}

// isNotAssumed reports whether ECS cannot assume the role yet, or the function has no right yet.
func isNotAssumed(err error) bool {
	return strings.Contains(err.Error(), "service linked role") || isCode(err, "AccessDeniedException")
}

// isCode reports whether an error of AWS has a code.
func isCode(err error, code string) bool {
	api := smithy.APIError(nil)
	return errors.As(err, &api) && api.ErrorCode() == code
}
