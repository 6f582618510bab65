package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lockstep/ui/post"
)

// Headers of Standard Webhooks (standardwebhooks.com).
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// post posts a notice, and tries again unless the notifier is closing.
func (t *target) post(ctx context.Context, n Notice) error {
	body, err := t.encode(n)
	if err != nil {
		return err
	}
	return t.Retry(ctx, func() error { return t.postOnce(ctx, n.ID, body) })
}

// postOnce sends a request. The error does not have the URL.
func (t *target) postOnce(ctx context.Context, id string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url.String(), bytes.NewReader(body))
	if err != nil {
		return errors.New("invalid URL")
	}
	req.Header.Set("Content-Type", t.kind)
	if t.key != nil {
		now := strconv.FormatInt(time.Now().Unix(), 10)
		req.Header.Set(headerID, id)
		req.Header.Set(headerTimestamp, now)
		req.Header.Set(headerSignature, sign(t.key, id, now, body))
	}
	resp, err := t.Do(req)
	if resp != nil && resp.StatusCode == http.StatusInternalServerError { // of webhooks, this often passes
		err = post.Again(err)
	}
	return err
}

// sign returns the signature of a message by Standard Webhooks: HMAC-SHA256 of "ID.TIMESTAMP.BODY".
func sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// minKey is in bytes.
const minKey = 16

// parseKey reads a key: "whsec_" and base64, as Standard Webhooks writes it, or any other text.
func parseKey(text string) (key []byte, err error) {
	text = strings.TrimSpace(text)
	key = []byte(text)
	if encoded, ok := strings.CutPrefix(text, "whsec_"); ok {
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, errors.New("what follows whsec_ is not base64") // the error of base64 is no help
		}
	}
	if len(key) < minKey {
		return nil, errors.New("the key is too short: use at least 16 bytes")
	}
	return key, nil
}
