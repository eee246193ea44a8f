-- What the Kubernetes API serves: objects, their labels, and every change of the last minutes.
CREATE TABLE meta (k {{.ASCII 32}} NOT NULL PRIMARY KEY, v {{.Int}} NOT NULL);

-- id is the resource version with which the object was made. uid is not unique: who gives uids is the registry above, and
-- the suite of k8s.io/apiserver for storage stores one uid under two keys.
CREATE TABLE objects (
  id {{.Int}} NOT NULL PRIMARY KEY,
  "key" {{.Key}} NOT NULL UNIQUE,
  uid {{.ASCII 64}} NULL,
  kind {{.Small}} NOT NULL,
  ns {{.Key}} NOT NULL,
  name {{.Key}} NOT NULL,
  rv {{.Int}} NOT NULL,
  created {{.Int}} NOT NULL,
  head {{.Bytes}} NOT NULL,
  payload {{.ASCII 64}} NULL,
  size {{.Int}} NOT NULL,
  digest {{.ASCII 160}} NULL,
  registry {{.Key}} NULL,
  repository {{.Key}} NULL
);
CREATE INDEX objects_uid ON objects (uid);
CREATE INDEX objects_ns ON objects (ns, size);
CREATE INDEX objects_created ON objects (kind, created);
CREATE INDEX objects_digest ON objects (kind, digest);
CREATE INDEX objects_repository ON objects (kind, repository);

CREATE TABLE labels (
  k {{.Key}} NOT NULL,
  v {{.ASCII 63}} NOT NULL,
  object {{.Int}} NOT NULL REFERENCES objects (id) ON DELETE CASCADE,
  PRIMARY KEY (k, v, object)
);
CREATE INDEX labels_object ON labels (object);

-- type: 1 added, 2 modified, 3 deleted, 4 compacted up to before_rv, 5 a number without a change.
CREATE TABLE changes (
  rv {{.Int}} NOT NULL PRIMARY KEY,
  at {{.Int}} NOT NULL,
  "key" {{.Key}} NOT NULL,
  type {{.Small}} NOT NULL,
  before_rv {{.Int}} NULL,
  before_head {{.Bytes}} NULL,
  before_payload {{.ASCII 64}} NULL
);
CREATE INDEX changes_key ON changes ("key", rv);

-- sha is that of the raw bytes; codec 0 raw, 1 zstd; refs counts the rows of objects and changes that name it.
CREATE TABLE blobs (
  sha {{.ASCII 64}} NOT NULL PRIMARY KEY,
  codec {{.Small}} NOT NULL,
  raw_size {{.Int}} NOT NULL,
  data {{.Bytes}} NOT NULL,
  refs {{.Int}} NOT NULL,
  at {{.Int}} NOT NULL
);
CREATE INDEX blobs_refs ON blobs (refs, at);
