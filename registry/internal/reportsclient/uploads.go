// SPDX-License-Identifier: Apache-2.0

package reportsclient

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"

	"github.com/klauspost/compress/zstd"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

// upload is a body and what is said of it.
type upload struct {
	path  string
	query url.Values
	claim string
	spec  any
	// files are sent one after the other.
	files []string
}

// put sends files, compressed. Their sum is that of all of them together.
func (c *Client) put(ctx context.Context, u upload) (reportsv1.UploadAnswer, error) {
	var answer reportsv1.UploadAnswer
	header := map[string]string{"Content-Type": "application/octet-stream", "Content-Encoding": "zstd"}
	if u.claim != "" {
		header[reportsv1.HeaderClaim] = u.claim
	}
	if u.spec != nil {
		spec, err := json.Marshal(u.spec)
		if err != nil {
			return answer, fmt.Errorf("encode what is said of a document: %w", err)
		}
		header[reportsv1.HeaderSpec] = base64.StdEncoding.EncodeToString(spec)
	}
	sum, err := sumOf(u.files)
	if err != nil {
		return answer, err
	}
	header[reportsv1.HeaderSHA256] = sum
	_, err = c.do(ctx, request{
		method: http.MethodPut, path: u.path, query: u.query, header: header, patience: c.options.Uploads, timeout: uploadTimeout,
		body: func() (io.ReadCloser, error) { return compressed(u.files), nil }, take: decode(&answer),
	})
	return answer, err
}

// readAll reads files one after the other.
func readAll(files []string, into io.Writer) error {
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("read a document: %w", err)
		}
		_, err = io.Copy(into, file)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("read a document: %w", err)
		}
	}
	return nil
}

func sumOf(files []string) (string, error) {
	sum := sha256.New()
	if err := readAll(files, sum); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// window is how far back the compression of a document looks. The server holds as much of each upload.
const window = 1 << 20

// encoders are used again: most documents are small, and the tables of a new encoder cost more than their compression.
var encoders = sync.Pool{}

func newEncoder(writer io.Writer) (*zstd.Encoder, error) {
	if used, is := encoders.Get().(*zstd.Encoder); is {
		used.Reset(writer)
		return used, nil
	}
	encoder, err := zstd.NewWriter(writer, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		return nil, fmt.Errorf("compress a document: %w", err)
	}
	return encoder, nil
}

// compressed gives files as one compressed stream. Who closes it early ends the reading.
func compressed(files []string) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() {
		encoder, err := newEncoder(writer)
		if err == nil {
			err = errors.Join(readAll(files, encoder), encoder.Close())
			encoder.Reset(nil)
			encoders.Put(encoder)
		}
		writer.CloseWithError(err)
	}()
	return reader
}

// PutDocument uploads an SBOM. SPDX ends the claim.
func (c *Client) PutDocument(
	ctx context.Context, namespace, name, format, claim string, about reportsv1.SBOMUpload, file string,
) (reportsv1.UploadAnswer, error) {
	answer, err := c.put(ctx, upload{
		path: pathOf(namespace, SBOMs, name, "document"), query: url.Values{"format": {format}}, claim: claim, spec: about, files: []string{file},
	})
	return answer, sayWhat(err, "upload the SBOM of "+name)
}

// PutFindings uploads findings and the keys of packages. It ends a claim. Without one the report is written only where it is newer.
func (c *Client) PutFindings(
	ctx context.Context, namespace, name, claim string, about reportsv1.FindingsUpload, files ...string,
) (reportsv1.UploadAnswer, error) {
	answer, err := c.put(ctx, upload{path: pathOf(namespace, Reports, name, "findings"), claim: claim, spec: about, files: files})
	return answer, sayWhat(err, "upload the findings of "+name)
}

// PutTags writes the tags of a repository from a file. A status of Done or Failed ends the claim.
func (c *Client) PutTags(ctx context.Context, namespace, name, claim string, status reportsv1.RepositoryStatus, file string) error {
	_, err := c.put(ctx, upload{
		path: pathOf(namespace, Repositories, name, "tags"), claim: claim, spec: reportsv1.TagsUpload{Status: status}, files: []string{file},
	})
	return sayWhat(err, "write the tags of "+name)
}

// PutChanges writes which keys differ between two versions of an adapter's data, from a file of sorted hashes.
func (c *Client) PutChanges(ctx context.Context, adapter, from, to string, total int64, file string) error {
	_, err := c.put(ctx, upload{
		path: pathOf("", Databases, adapter, "changes"), files: []string{file},
		query: url.Values{"from": {from}, "to": {to}, "total": {strconv.FormatInt(total, 10)}},
	})
	return sayWhat(err, "write what has changed in the database of "+adapter)
}

// Tags reads the tags of a repository.
func (c *Client) Tags(ctx context.Context, namespace, name string) ([]reportsv1.Tag, error) {
	var tags []reportsv1.Tag
	_, err := c.do(ctx, request{
		method: http.MethodGet, path: pathOf(namespace, Repositories, name, "tags"), timeout: uploadTimeout,
		take: func(from io.Reader) (err error) {
			tags, err = readTags(from)
			return err
		},
	})
	return tags, sayWhat(err, "read the tags of "+name)
}

var errNotTags = errors.New(`the tags are not {"tags": […]}`)

func readTags(from io.Reader) ([]reportsv1.Tag, error) {
	decoder := json.NewDecoder(bufio.NewReader(from))
	for _, want := range []json.Token{json.Delim('{'), "tags", json.Delim('[')} {
		if token, err := decoder.Token(); err != nil || token != want {
			return nil, errors.Join(errNotTags, err)
		}
	}
	var tags []reportsv1.Tag
	for decoder.More() {
		var tag reportsv1.Tag
		if err := decoder.Decode(&tag); err != nil {
			return nil, fmt.Errorf("read a tag: %w", err)
		}
		tags = append(tags, tag)
	}
	// A list without its end was cut.
	if _, err := decoder.Token(); err != nil {
		return nil, errors.Join(errNotTags, err)
	}
	return tags, nil
}

// Document reads an SBOM into a file, and gives its sum.
func (c *Client) Document(ctx context.Context, namespace, name, file string) (string, error) {
	sum := ""
	_, err := c.do(ctx, request{
		method: http.MethodGet, path: pathOf(namespace, SBOMs, name, "document"), patience: c.options.Patience, timeout: uploadTimeout,
		header: map[string]string{"Accept-Encoding": "identity"},
		take: func(from io.Reader) error {
			hash := sha256.New()
			target, err := os.Create(file)
			if err != nil {
				return fmt.Errorf("keep an SBOM: %w", err)
			}
			_, err = io.Copy(io.MultiWriter(target, hash), from)
			sum = hex.EncodeToString(hash.Sum(nil))
			return errors.Join(err, target.Close())
		},
	})
	return sum, sayWhat(err, "read the SBOM of "+name)
}

// Findings reads the findings of a report into a file, as the query wants them.
func (c *Client) Findings(ctx context.Context, namespace, name string, query url.Values, file string) error {
	_, err := c.do(ctx, request{
		method: http.MethodGet, path: pathOf(namespace, Reports, name, "findings"), query: query, timeout: uploadTimeout,
		take: func(from io.Reader) error {
			target, err := os.Create(file)
			if err != nil {
				return fmt.Errorf("keep findings: %w", err)
			}
			_, err = io.Copy(target, from)
			return errors.Join(err, target.Close())
		},
	})
	return sayWhat(err, "read the findings of "+name)
}

// Reuse asks for an SBOM and a report that are there already. Both are false where there is nothing.
func (c *Client) Reuse(ctx context.Context, namespace, name, claim string, asked reportsv1.ReuseRequest) (reportsv1.ReuseAnswer, error) {
	var answer reportsv1.ReuseAnswer
	header := map[string]string{"Content-Type": "application/json"}
	if claim != "" {
		header[reportsv1.HeaderClaim] = claim
	}
	_, err := c.do(ctx, request{
		method: http.MethodPost, path: pathOf(namespace, Images, name, "reuse"), header: header, body: marshalled(asked), take: decode(&answer),
	})
	if apierrors.IsNotFound(err) && ReasonOf(err) == reportsv1.ReasonNothingToReuse {
		return reportsv1.ReuseAnswer{}, nil
	}
	return answer, sayWhat(err, "reuse what there is of "+name)
}

func sayWhat(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
