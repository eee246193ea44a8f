// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/localcluster/s3fault"
)

func s3Client(t *testing.T, endpoint string) *minio.Client {
	t.Helper()
	o := shared.ObjectStore
	c, err := minio.New(endpoint, &minio.Options{Creds: credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""), Region: o.Region, MaxRetries: 1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// do sends a plain request, as a scan's pod does with a presigned URL.
func do(t *testing.T, method, url string, body []byte) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, b
}

func TestPresignedRoundTrip(t *testing.T) {
	bucket := shared.ObjectStore.Bucket
	for name, body := range map[string][]byte{"Text": []byte("<xml/>"), "Empty": {}} {
		t.Run(name, func(t *testing.T) {
			c := s3Client(t, shared.ObjectStore.Endpoint)
			key := "presigned/" + name + "/raw.xml"
			put, err := c.PresignedPutObject(t.Context(), bucket, key, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if code, b := do(t, http.MethodPut, put.String(), body); code != http.StatusOK {
				t.Fatalf("PUT: %d %s", code, b)
			}
			head, err := c.PresignedHeadObject(t.Context(), bucket, key, time.Hour, nil)
			if err != nil {
				t.Fatal(err)
			}
			if code, _ := do(t, http.MethodHead, head.String(), nil); code != http.StatusOK {
				t.Errorf("HEAD: %d", code)
			}
			get, err := c.PresignedGetObject(t.Context(), bucket, key, time.Hour, nil)
			if err != nil {
				t.Fatal(err)
			}
			if code, b := do(t, http.MethodGet, get.String(), nil); code != http.StatusOK || !bytes.Equal(b, body) {
				t.Errorf("GET: %d %q, want %q", code, b, body)
			}
			get.RawQuery = get.RawQuery[:len(get.RawQuery)-1]
			if code, _ := do(t, http.MethodGet, get.String(), nil); code != http.StatusForbidden && code != http.StatusBadRequest {
				t.Errorf("GET with a broken signature: %d", code)
			}
		})
	}
}

func TestManySmallObjectsAndDeleteByPrefix(t *testing.T) {
	c, bucket := s3Client(t, shared.ObjectStore.Endpoint), shared.ObjectStore.Bucket
	const objects, writers = 3000, 16
	var wg sync.WaitGroup
	began := time.Now()
	for w := range writers {
		wg.Go(func() {
			for i := w; i < objects; i += writers {
				key := fmt.Sprintf("many/%04d/findings.json", i)
				if _, err := c.PutObject(t.Context(), bucket, key, bytes.NewReader([]byte("[]")), 2, minio.PutObjectOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d small objects written in %.1f s", objects, time.Since(began).Seconds())
	count := func() (n int) {
		for o := range c.ListObjects(t.Context(), bucket, minio.ListObjectsOptions{Prefix: "many/", Recursive: true}) {
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			n++
		}
		return n
	}
	if n := count(); n != objects {
		t.Errorf("listed %d objects, want %d", n, objects)
	}
	began = time.Now()
	for e := range c.RemoveObjects(t.Context(), bucket, c.ListObjects(t.Context(), bucket, minio.ListObjectsOptions{Prefix: "many/", Recursive: true}), minio.RemoveObjectsOptions{}) {
		t.Error(e.Err)
	}
	t.Logf("deleted in %.1f s", time.Since(began).Seconds())
	if n := count(); n != 0 {
		t.Errorf("%d objects left after deletion by prefix", n)
	}
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func TestLargeObject(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 1 GiB; -short was asked for")
	}
	c, bucket := s3Client(t, shared.ObjectStore.Endpoint), shared.ObjectStore.Bucket
	const size = 1 << 30
	if _, err := c.PutObject(t.Context(), bucket, "large", io.LimitReader(zeros{}, size), size, minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	get, err := c.PresignedGetObject(t.Context(), bucket, "large", time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(get.String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != size {
		t.Errorf("read %d bytes (%v), want %d", n, err, size)
	}
	if err := c.RemoveObject(t.Context(), bucket, "large", minio.RemoveObjectOptions{}); err != nil {
		t.Error(err)
	}
}

func TestStoreFaultAndRestart(t *testing.T) {
	p, err := s3fault.Start(shared.ObjectStore.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, bucket := s3Client(t, p.Endpoint()), shared.ObjectStore.Bucket
	put := func() error {
		_, err := c.PutObject(t.Context(), bucket, "fault", bytes.NewReader([]byte("x")), 1, minio.PutObjectOptions{})
		return err
	}
	if err := put(); err != nil {
		t.Fatalf("through the proxy: %v", err)
	}
	p.Fail(true)
	if err := put(); minio.ToErrorResponse(err).StatusCode != http.StatusServiceUnavailable {
		t.Errorf("while failing: got %v, want a 503", err)
	}
	p.Fail(false)
	if err := shared.Kill(t.Context(), localcluster.S3); err != nil {
		t.Fatal(err)
	}
	if err := shared.StartComponent(t.Context(), localcluster.S3); err != nil {
		t.Fatal(err)
	}
	o, err := c.GetObject(t.Context(), bucket, "fault", minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(o); err != nil || string(b) != "x" {
		t.Errorf("after a restart: got %q, %v", b, err)
	}
}
