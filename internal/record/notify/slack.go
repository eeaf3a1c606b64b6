package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
)

type slackKeys struct {
	common
	URL block.String `key:"url" required:"true" doc:"address of the incoming webhook, which is a secret: better a template"`
}

// slack posts a message through an incoming webhook of Slack.
type slack struct{ URL string }

func (*slackKeys) about() about {
	return about{ForPeople: true, Templates: []string{"url"}, Secrets: []secret{{"url", `https://hooks\.slack\.com/[^\s"'\\]+`}}}
}

func (k *slackKeys) target(r *block.Report) Target {
	checkURL(r, &k.URL, k.Origin)
	return &slack{k.URL.V}
}

// Texts implements Target.
func (s *slack) Texts() map[string]string { return map[string]string{"url": s.URL} }

func (s *slack) send(ctx context.Context, e outbox.Event, texts map[string]string) error {
	body, err := json.Marshal(map[string]string{"text": slackText(e)})
	if err != nil {
		return fmt.Errorf("encode the message: %w", err)
	}
	return post(ctx, texts["url"], http.Header{}, body)
}

// escape keeps Slack from reading a text as markup or a mention.
var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "`", "'")

// slackText is Lines with Slack's markup.
func slackText(e outbox.Event) string {
	lines := Lines(e)
	for i, line := range lines {
		line = escape.Replace(line)
		if i == 0 {
			line = "*" + line + "*"
		} else if command, ok := strings.CutPrefix(line, toApprove); ok {
			line = toApprove + "`" + command + "`"
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}
