// Package notification checks the notifications that HCP Terraform sends when a run changes. A
// notification is only a hint: a tick polls HCP Terraform earlier. What the notification says is
// not used.
package notification

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/hex"
)

// Signature is the header with the signature of a notification.
const Signature = "X-TFE-Notification-Signature"

// MaxBody limits the body of a notification, in bytes. One has about 1 KB.
const MaxBody = 64 << 10

// Signed reports whether a notification was signed with the key: whether the signature is the
// HMAC-SHA512 of the body, in hexadecimal digits.
// https://developer.hashicorp.com/terraform/cloud-docs/api-docs/notification-configurations#notification-authenticity
func Signed(key, signature string, body []byte) bool {
	got, err := hex.DecodeString(signature)
	if err != nil || key == "" {
		return false
	}
	mac := hmac.New(sha512.New, []byte(key))
	mac.Write(body)
	return hmac.Equal(got, mac.Sum(nil))
}
