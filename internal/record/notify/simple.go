package notify

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// simpleCall is a call that is all of an action.
var simpleCall = regexp.MustCompile(`\{\{-?\s*(env|mustEnv|secretsmanager|ssm)((?:\s+(?:"(?:[^"\\\n]|\\.)*"|` + "`[^`]*`" + `))+)\s*-?\}\}`)

var simpleArgument = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"|` + "`[^`]*`")

// SimpleHint says what Simple can evaluate.
const SimpleHint = `use {{ secretsmanager "arn" }}, {{ secretsmanager "arn" "key" }}, {{ ssm "name" }} or {{ env "NAME" }}`

// CheckSimple reports whether Simple can evaluate a text.
func CheckSimple(text string) error {
	if strings.Contains(simpleCall.ReplaceAllString(text, ""), "{{") {
		return errors.New("the functions in AWS cannot evaluate this template; " + SimpleHint)
	}
	return nil
}

// Simple evaluates templates that only call one function, which look does. It is
// for the functions in AWS, which are small: the package of all templates is not.
func Simple(look func(ctx context.Context, function string, arguments []string) (string, error)) Evaluate {
	return func(ctx context.Context, key, text string) (string, error) {
		if !strings.Contains(text, "{{") {
			return text, nil
		}
		if err := CheckSimple(text); err != nil {
			return "", fmt.Errorf("%s: %w", key, err)
		}
		var failed error
		value := simpleCall.ReplaceAllStringFunc(text, func(call string) string {
			parts := simpleCall.FindStringSubmatch(call)
			var arguments []string
			for _, quoted := range simpleArgument.FindAllString(parts[2], -1) {
				argument, err := strconv.Unquote(quoted)
				if err != nil {
					failed = fmt.Errorf("%s: an argument of %s cannot be read", key, parts[1])
				}
				arguments = append(arguments, argument)
			}
			if failed != nil {
				return ""
			}
			found, err := look(ctx, parts[1], arguments)
			if err != nil {
				failed = fmt.Errorf("%s: %w", key, err)
			}
			return found
		})
		return value, failed
	}
}
