// Package names makes valid names of objects and values of labels from texts that users choose freely, such as the name
// of a folder. Its only function is Of. It imports nothing of lockstep.
package names

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// MaxChanged is the maximum length of a name that differs from its text, so that prefixes and suffixes can be added.
	MaxChanged = 40
	hashLength = 8
)

// Of returns a name for a text: the text itself if it is a valid DNS-1123 subdomain and label value; otherwise one of at
// most MaxChanged characters that resembles the text and ends with its hash, so that two texts do not get the same name.
// The same text always gets the same name.
func Of(text string) string {
	if len(text) <= validation.LabelValueMaxLength && len(validation.IsDNS1123Subdomain(text)) == 0 {
		return text
	}
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if !strings.HasSuffix(b.String(), "-") {
			b.WriteByte('-')
		}
	}
	readable := strings.Trim(b.String(), "-")
	readable = strings.TrimRight(readable[:min(len(readable), MaxChanged-1-hashLength)], "-")
	sum := sha256.Sum256([]byte(text))
	return cmp.Or(readable, "name") + "-" + hex.EncodeToString(sum[:])[:hashLength]
}
