package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// protection protects the table against deletion. The template cannot: CloudFormation could then not
// delete the table of a first deployment that fails.
type protection struct {
	Client   *dynamodb.Client
	Patience time.Duration
	Log      *slog.Logger
}

// handle protects the table as long as the resource exists. CloudFormation deletes the resource
// before the table.
func (p *protection) handle(ctx context.Context, e cfn.Event) (id string, data map[string]any, err error) {
	table := property(e.ResourceProperties, "Table")
	protect := e.RequestType != cfn.RequestDelete
	busy := func(err error) bool { return errors.As(err, new(*types.ResourceInUseException)) } // it is being changed
	err = patiently(ctx, p.Patience, func(ctx context.Context) error { return p.set(ctx, table, protect) }, busy)
	if gone := (*types.ResourceNotFoundException)(nil); errors.As(err, &gone) && !protect {
		err = nil
	}
	if isDenied(err) && !protect { // a failure would keep the stack, which retains its table, from being deleted
		p.Log.Warn("cannot end the protection of the table against deletion", "table", table, "error", err)
		err = nil
	}
	if err != nil {
		return e.PhysicalResourceID, nil, fmt.Errorf("protect table %s against deletion: %w", table, err)
	}
	return table, nil, nil
}

func (p *protection) set(ctx context.Context, table string, protect bool) error {
	found, err := p.Client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	if err != nil || aws.ToBool(found.Table.DeletionProtectionEnabled) == protect {
		return err
	}
	_, err = p.Client.UpdateTable(ctx, &dynamodb.UpdateTableInput{TableName: &table, DeletionProtectionEnabled: &protect})
	if err == nil {
		p.Log.Info("the protection of the table against deletion was changed", "table", table, "protected", protect)
	}
	return err
}
