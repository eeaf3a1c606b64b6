package stores

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/terrapulse/terrapulse/internal/base/awsconfig"
	"github.com/terrapulse/terrapulse/internal/record/runlog"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
)

var dynamoTable = kind{
	scheme: "dynamodb", form: "dynamodb://TABLE",
	about: "the table of a deployment in AWS, with ?region=NAME if it is in another region than the default one",
	at: func(ctx context.Context, text string) (Place, error) {
		at, err := url.Parse(text)
		if err != nil || at.Host == "" || strings.Trim(at.Path, "/") != "" {
			return Place{}, fmt.Errorf("store %q names no table: write dynamodb://TABLE or dynamodb://TABLE?region=NAME", text)
		}
		for name := range at.Query() {
			if name != "region" {
				return Place{}, fmt.Errorf("store %q: unknown parameter %s; only region is known", text, name)
			}
		}
		cfg, err := awsconfig.ForCommand(ctx, at.Query().Get("region"))
		if err != nil {
			return Place{}, err
		}
		open := func(context.Context) (state.Store, error) { return dynamo.New(cfg, at.Host), nil }
		return Place{
			Kind: "dynamodb", Where: at.Host, read: open, change: open,
			write: refused(text, "this store belongs to a deployment in AWS, which runs its tasks itself: start runs there with `terrapulse invoke`"),
			output: func(ctx context.Context, url string) ([]byte, error) {
				return runlog.Load(ctx, s3.NewFromConfig(cfg), url)
			},
		}, nil
	},
}
