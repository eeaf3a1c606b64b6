package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/config/block"
	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/state"
)

// maxText is how much of an error or of a detail a message shows.
const maxText = 1500

type slackKeys struct {
	common
	URL block.String `key:"url" required:"true" doc:"address of the incoming webhook, which is a secret: better a template"`
}

// slack posts a message through an incoming webhook of Slack.
type slack struct{ URL string }

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

// slackText says what happened, why, with which numbers, and what to do.
func slackText(e outbox.Event) string {
	what := cmp.Or(e.Kind.About().Line, strings.ReplaceAll(string(e.Kind), "_", " "))
	lines := []string{"*" + escape.Replace(what) + "*"}
	if e.Task != "" {
		lines[0] = "*" + escape.Replace(e.Task) + ": " + escape.Replace(what) + "*"
	}
	say := func(name, text string) {
		if runes := []rune(text); len(runes) > maxText {
			text = string(runes[:maxText]) + "…"
		}
		if text != "" {
			lines = append(lines, name+": "+escape.Replace(text))
		}
	}
	say("Why", cmp.Or(e.Detail, e.Cause, strings.ReplaceAll(string(e.Reason), "_", " ")))
	say("Error", e.Error)
	say("By", e.By)
	if c := e.Changes; c != nil {
		form := "%d added, %d changed, %d destroyed"
		if e.Kind == outbox.RunWaiting || e.RunKind != "" {
			form = "%d to add, %d to change, %d to destroy"
		}
		say("Resources", fmt.Sprintf(form, c.Add, c.Change, c.Destroy))
	}
	if !e.Started.IsZero() && e.Kind != outbox.RunWaiting {
		say("Duration", e.At.Sub(e.Started).Round(time.Second/10).String())
	}
	if !e.Until.IsZero() {
		say("Until", e.Until.UTC().Format(time.RFC3339))
	}
	if e.Kind == outbox.RunWaiting && e.WaitFor == state.WaitApproval {
		lines = append(lines, "To approve: `terrapulse approve "+escape.Replace(e.Task)+"`")
	}
	return strings.Join(lines, "\n")
}
