// SPDX-License-Identifier: Apache-2.0

package persistencedefectdojo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// importer uploads the results of a Scan.
type importer struct {
	*handler

	api     *api
	session *sdk.Session
	target  *target
	place   *place
	now     time.Time
}

// run reimports into the test. The same report again changes nothing in DefectDojo, so it can be repeated.
func (i *importer) run(ctx context.Context) error {
	// The boundary must be the same each time the body is made, and no report can know it.
	boundary := strings.ReplaceAll(i.session.Key(i.address, "boundary")+i.session.Key(i.key), "-", "")
	body, err := sdk.Stage(ctx, func(ctx context.Context, w io.Writer) error { return i.write(ctx, w, boundary) })
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	header := i.api.header.Clone()
	header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
	answer, err := i.api.long.Do(ctx, &delivery.Request{URL: i.api.url("reimport-scan/", nil), Header: header, Body: body})
	if status, ok := errors.AsType[*delivery.StatusError](err); ok && status.Status == http.StatusRequestEntityTooLarge {
		return fmt.Errorf("%w (the report has %d bytes; raise the limit of the proxy in front of DefectDojo)", err, body.Size())
	}
	if err != nil {
		return err
	}
	var imported struct {
		TestID int64 `json:"test_id"`
		Test   int64 `json:"test"`
	}
	if err := answer.JSON(&imported); err != nil {
		return err
	}
	if id := max(imported.TestID, imported.Test); id != i.place.test {
		return fmt.Errorf("DefectDojo says that it went into test %d", id)
	}
	return nil
}

// write makes the form. It is called more than once.
func (i *importer) write(ctx context.Context, w io.Writer, boundary string) error {
	form := multipart.NewWriter(w)
	if err := form.SetBoundary(boundary); err != nil {
		return fmt.Errorf("make form: %w", err)
	}
	for _, field := range i.fields() {
		if err := form.WriteField(field[0], field[1]); err != nil {
			return fmt.Errorf("make form: %w", err)
		}
	}
	kind := "application/json"
	if i.target.raw {
		kind = "application/octet-stream"
	}
	file, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {fmt.Sprintf(`form-data; name="file"; filename="%s"`, quoteName(i.target.file))},
		"Content-Type":        {kind},
	})
	if err != nil {
		return fmt.Errorf("make form: %w", err)
	}
	if err := i.writeReport(ctx, file); err != nil {
		return err
	}
	if err := form.Close(); err != nil {
		return fmt.Errorf("make form: %w", err)
	}
	return nil
}

func (i *importer) fields() [][2]string {
	fields := [][2]string{
		{"test", strconv.FormatInt(i.place.test, 10)},
		{"scan_type", i.target.scanType},
		{"scan_date", i.now.Format(time.DateOnly)},
		{"lead", strconv.FormatInt(i.place.user, 10)},
		{"close_old_findings", "true"},
	}
	if i.target.minimumSeverity != "" {
		fields = append(fields, [2]string{"minimum_severity", i.target.minimumSeverity})
	}
	if i.target.version != "" {
		fields = append(fields, [2]string{"version", i.target.version})
	}
	return fields
}

func quoteName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '"' || r == '\\' {
			return '_'
		}
		return r
	}, name)
}

func (i *importer) writeReport(ctx context.Context, w io.Writer) (err error) {
	if !i.target.raw {
		return i.writeGeneric(ctx, w)
	}
	raw, err := i.session.RawResult(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, raw.Close()) }()
	if _, err := io.Copy(w, raw); err != nil {
		return fmt.Errorf("copy raw result: %w", err)
	}
	return nil
}

func (i *importer) writeGeneric(ctx context.Context, w io.Writer) error {
	line := []byte(`{"findings":[`)
	err := i.session.EachReported(ctx, func(element []byte, mark *exception.Mark) error {
		var err error
		if line, err = appendGeneric(line, element, mark, i.session.FindingID, i.now); err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		line = append(line[:0], ",\n"...)
		return nil
	})
	if err != nil {
		return err
	}
	end := "]}"
	if line[0] == '{' {
		end = string(line) + end // there were none
	}
	if _, err := io.WriteString(w, end); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
