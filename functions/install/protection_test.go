package main

import (
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/terrapulse/terrapulse/internal/stores/dynamo/dynamotest"
)

// A table is protected from its creation to the deletion of the stack, and a first deployment that
// fails can delete it.
func TestProtection_LastsAsLongAsTheStack(t *testing.T) {
	url := dynamotest.Start(t)
	table := dynamotest.Table(t, url)
	client := dynamodb.NewFromConfig(dynamotest.Config(url))
	p := &protection{Client: client, Patience: 10 * time.Second, Log: slog.New(slog.DiscardHandler)}
	request := func(kind cfn.RequestType) {
		t.Helper()
		id, _, err := p.handle(t.Context(), cfn.Event{RequestType: kind, PhysicalResourceID: table, ResourceProperties: map[string]any{"Table": table}})
		if err != nil || id != table {
			t.Fatalf("%s: %q, %v", kind, id, err)
		}
	}
	remove := func() error {
		_, err := client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &table})
		return err
	}
	request(cfn.RequestCreate)
	request(cfn.RequestUpdate)
	found, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
	if err != nil || !aws.ToBool(found.Table.DeletionProtectionEnabled) {
		t.Fatalf("the table is not protected: %v", err)
	}
	if err := remove(); err == nil {
		t.Error("a protected table was deleted")
	}
	request(cfn.RequestDelete)
	if err := remove(); err != nil {
		t.Errorf("the table of a failed deployment stays: %v", err)
	}
	request(cfn.RequestDelete) // CloudFormation may repeat itself
	if _, _, err := p.handle(t.Context(), cfn.Event{RequestType: cfn.RequestCreate, ResourceProperties: map[string]any{"Table": "nope"}}); err == nil {
		t.Error("protected a table that does not exist")
	}
}

// A right that is missing fails the creation, but not the deletion: the stack could never be
// deleted.
func TestProtection_DeleteEndsWithoutItsRights(t *testing.T) {
	for request, fails := range map[cfn.RequestType]bool{cfn.RequestCreate: true, cfn.RequestDelete: false} {
		synctest.Test(t, func(t *testing.T) {
			denied := func(w http.ResponseWriter, r *http.Request) {
				refuses(http.StatusForbidden, "AccessDeniedException")(w, r, nil)
			}
			_, _, err := install(t, http.HandlerFunc(denied), cfn.Event{RequestType: request, ResourceType: typeProtection, PhysicalResourceID: "table", ResourceProperties: resources[typeProtection].properties})
			if (err != nil) != fails {
				t.Errorf("%s: %v", request, err)
			}
		})
	}
}
