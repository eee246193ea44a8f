// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/scanyard/scanyard/tests/testcluster"
)

// bucketOf is what a test sees of a bucket without the program.
type bucketOf struct {
	t    *testing.T
	s    testcluster.Storage
	s3   *minio.Client
	path string
}

func newBucket(t *testing.T) *bucketOf {
	t.Helper()
	s := testcluster.StartStorage(t)
	s3, err := minio.New(s.Endpoint, &minio.Options{Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""), Region: s.Region, BucketLookup: minio.BucketLookupPath})
	if err != nil {
		t.Fatal(err)
	}
	return &bucketOf{t, s, s3, "s3://" + s.Bucket + "/"}
}

// run runs the program with the variables of the bucket, and what differs from them.
func (b *bucketOf) run(differs []string, args ...string) (string, int) {
	b.t.Helper()
	cmd := program(b.t, args...)
	cmd.Env = append(cmd.Env, "S3_ENDPOINT="+b.s.Endpoint, "S3_USE_SSL=false", "S3_BUCKET="+b.s.Bucket, "S3_REGION="+b.s.Region, "S3_PATH_STYLE=true",
		"MINIO_ACCESS_KEY="+b.s.AccessKey, "MINIO_SECRET_KEY="+b.s.SecretKey)
	cmd.Env = append(cmd.Env, differs...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		b.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func (b *bucketOf) put(key, content string) {
	b.t.Helper()
	if _, err := b.s3.PutObject(b.t.Context(), b.s.Bucket, key, strings.NewReader(content), int64(len(content)), minio.PutObjectOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bucketOf) keys() (keys []string) {
	b.t.Helper()
	for object := range b.s3.ListObjectsIter(b.t.Context(), b.s.Bucket, minio.ListObjectsOptions{Recursive: true}) {
		if object.Err != nil {
			b.t.Fatal(object.Err)
		}
		keys = append(keys, object.Key)
	}
	return keys
}

// damage changes one byte of an object, and leaves its metadata as it was.
func (b *bucketOf) damage(key string) {
	b.t.Helper()
	object, err := b.s3.GetObject(b.t.Context(), b.s.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	defer object.Close()
	var content bytes.Buffer
	if _, err := content.ReadFrom(object); err != nil {
		b.t.Fatal(err)
	}
	info, err := object.Stat()
	if err != nil {
		b.t.Fatal(err)
	}
	content.Bytes()[content.Len()-1] ^= 1
	_, err = b.s3.PutObject(b.t.Context(), b.s.Bucket, key, &content, int64(content.Len()), minio.PutObjectOptions{UserMetadata: info.UserMetadata})
	if err != nil {
		b.t.Fatal(err)
	}
}

// Backups go into a bucket of a real S3 server, and come back: the oldest are deleted, what else is there stays, the newest is
// restored unless one is named, and one that is damaged is refused.
func TestBackupsInABucket(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	folder := t.TempDir()
	database := filepath.Join(folder, "reports.db")
	server := start(t, "--sqlite", database)
	server.create("team-a", "before")
	old, older := "reports/reports-20250102T000000Z.db", "reports/reports-20250101T000000Z.db"
	others := []string{"reports/mine.db", "reports/reports-yesterday.db", "reports/sub/reports-20250101T000000Z.db", "elsewhere/reports-20250101T000000Z.db"}
	for _, key := range append(others, old, older) {
		b.put(key, "content")
	}
	scratch := t.TempDir()
	out, exit := b.run(nil, "backup", "--bucket", "--sqlite", database, "--keep", "2", "--scratch", scratch)
	if exit != 0 || strings.Count(out, "removed") != 1 || !strings.Contains(out, "Older backup "+b.path+older+" removed.") {
		t.Fatalf("backup: exit %d: %s", exit, out)
	}
	place, _, _ := strings.Cut(strings.TrimPrefix(out, "Backup written to "), ": ")
	first, under := strings.CutPrefix(place, b.path)
	if want := append(slices.Clone(others), old, first); !under || !sameSet(b.keys(), want) {
		t.Fatalf("the bucket has %q, must have %q", b.keys(), want)
	}
	if left, err := filepath.Glob(filepath.Join(scratch, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	server.create("team-a", "after")
	if out, exit := b.run(nil, "restore", "--bucket", "--sqlite", database); exit != 3 {
		t.Errorf("restore under a server: exit %d: %s", exit, out)
	}
	server.stop()
	if out, exit := b.run(nil, "restore", "--bucket", "--sqlite", database); exit != 0 || !strings.Contains(out, "Restored from "+place+".\n") {
		t.Fatalf("restore: exit %d: %s", exit, out)
	}
	server = start(t, "--sqlite", database)
	if !server.exists("team-a", "before") || server.exists("team-a", "after") {
		t.Error("the server does not serve what the backup held")
	}
	server.stop()
	b.damage(first)
	for name, c := range map[string]struct {
		differs []string
		args    string
		says    string
	}{
		"Damaged":         {nil, "restore --bucket", "it is not as it was written"},
		"NoBackup":        {nil, "restore --bucket mine.db", "it is not as it was written"},
		"Missing":         {nil, "restore --bucket reports-20240101T000000Z.db", "there is no such file in the bucket"},
		"Empty":           {nil, "restore --bucket --prefix none/", b.path + "none/ has no backup"},
		"NoFile":          {nil, "restore", "restore needs FILE, or --bucket"},
		"NoName":          {[]string{"S3_BUCKET="}, "backup --bucket", "S3_BUCKET must be set"},
		"NoEndpoint":      {[]string{"S3_ENDPOINT="}, "restore --bucket", "S3_ENDPOINT must be set"},
		"PathStyle":       {[]string{"S3_PATH_STYLE=yes"}, "backup --bucket", "S3_PATH_STYLE must be true, false or empty"},
		"NoCA":            {[]string{"S3_CA_FILE=" + database}, "backup --bucket", "has no certificate in PEM"},
		"ForeignSecret":   {[]string{"MINIO_SECRET_KEY=foreign"}, "backup --bucket", "write " + b.path},
		"NoSuchBucket":    {[]string{"S3_BUCKET=none"}, "backup --bucket", "write s3://none/"},
		"ForeignToRead":   {[]string{"MINIO_SECRET_KEY=foreign"}, "restore --bucket", "list " + b.path},
		"NothingToBackUp": {nil, "backup --bucket --prefix none/ --sqlite " + filepath.Join(folder, "none.db"), "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			args := strings.Fields(c.args)
			if !slices.Contains(args, "--sqlite") {
				args = append(args, "--sqlite", database)
			}
			out, exit := b.run(c.differs, args...)
			if exit != 1 || !strings.Contains(out, c.says) || strings.Contains(out, b.s.SecretKey) || strings.Contains(out, "foreign") {
				t.Errorf("exit %d, must be 1 and say %q: %s", exit, c.says, out)
			}
		})
	}
	if out, exit := run(t, "fsck", "--sqlite", database); exit != 0 {
		t.Errorf("the database after all this: exit %d: %s", exit, out)
	}
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
