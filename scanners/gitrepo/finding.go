// SPDX-License-Identifier: Apache-2.0

package gitrepo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// resultFile is the name that the ScanType expects.
const resultFile = "git-repo-scanner-findings.json"

// finding is a repository as the parser passes it on.
type finding struct {
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Category    string     `json:"category"`
	OSILayer    string     `json:"osi_layer"`
	Severity    string     `json:"severity"`
	Attributes  repository `json:"attributes"`
}

// repository is the data about each one. IDs are texts, so that cascading rules can compare them.
type repository struct {
	ID             string   `json:"id"`
	WebURL         string   `json:"web_url"`
	FullName       string   `json:"full_name"`
	OwnerType      string   `json:"owner_type"`
	OwnerID        string   `json:"owner_id"`
	OwnerName      string   `json:"owner_name"`
	CreatedAt      string   `json:"created_at"`
	LastActivityAt string   `json:"last_activity_at"`
	Visibility     string   `json:"visibility"`
	Archived       bool     `json:"archived"`
	Topics         []string `json:"topics"`
	LastCommitID   string   `json:"last_commit_id,omitempty"`
}

// newFinding wraps a repository; product is GitHub or GitLab.
func newFinding(product string, r repository) finding {
	if r.Topics == nil {
		r.Topics = []string{}
	}
	return finding{
		Name: product + " Repo", Description: "A " + product + " repository", Category: "Git Repository",
		OSILayer: "APPLICATION", Severity: "INFORMATIONAL", Attributes: r,
	}
}

// timestamp is a time as both servers' users write it; empty for none.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// result is a findings array on its way to a file.
type result struct {
	final string
	file  *os.File
	buf   *bufio.Writer
	enc   *json.Encoder
	count int
}

// newResult starts a file beside the final one.
func newResult(dir string) (*result, error) {
	f, err := os.CreateTemp(dir, "."+resultFile+"-*")
	if err != nil {
		return nil, fmt.Errorf("write result: %w", err)
	}
	r := &result{final: filepath.Join(dir, resultFile), file: f, buf: bufio.NewWriter(f)}
	r.enc = json.NewEncoder(r.buf)
	r.enc.SetEscapeHTML(false)
	return r, nil
}

// add writes a finding.
func (r *result) add(f finding) error {
	separator := ",\n"
	if r.count == 0 {
		separator = "[\n"
	}
	if _, err := r.buf.WriteString(separator); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	r.count++
	if err := r.enc.Encode(f); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// finish gives the file its name, or removes it if the scan has failed.
func (r *result) finish(scan error) error {
	if scan != nil {
		return errors.Join(scan, r.file.Close(), os.Remove(r.file.Name()))
	}
	end := "]\n"
	if r.count == 0 {
		end = "[]\n"
	}
	_, err := r.buf.WriteString(end)
	// The lurker, which uploads it, may run as another user.
	err = errors.Join(err, r.buf.Flush(), r.file.Chmod(0o644), r.file.Close())
	if err == nil {
		err = os.Rename(r.file.Name(), r.final)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write result: %w", err), os.Remove(r.file.Name()))
	}
	return nil
}
