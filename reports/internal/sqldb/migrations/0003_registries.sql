-- Documents that are streamed. sha is that of the whole, NULL while the document is being uploaded; refs counts the rows of
-- documents that name it; a chunk is a zstd frame of its own.
CREATE TABLE contents (
  id {{.Int}} NOT NULL PRIMARY KEY,
  sha {{.ASCII 64}} NULL UNIQUE,
  bytes {{.Int}} NOT NULL,
  refs {{.Int}} NOT NULL,
  at {{.Int}} NOT NULL
);
CREATE INDEX contents_refs ON contents (refs, at);

CREATE TABLE content_chunks (
  content {{.Int}} NOT NULL,
  seq {{.Int}} NOT NULL,
  data {{.Bytes}} NOT NULL,
  PRIMARY KEY (content, seq)
);

-- Which documents an object has. format: spdx-json, cyclonedx-json, findings, tags.
CREATE TABLE documents (
  object {{.Int}} NOT NULL,
  format {{.ASCII 32}} NOT NULL,
  content {{.Int}} NOT NULL,
  PRIMARY KEY (object, format)
){{.Clustered}};
CREATE INDEX documents_content ON documents (content);

-- What is asked of repositories, images, SBOMs and vulnerability reports: one row for each object. Times are milliseconds
-- since 1970. content is the SBOM's own or the one that a report was matched of; seq is the newest data that a report is
-- known to be good for.
CREATE TABLE subjects (
  object {{.Int}} NOT NULL PRIMARY KEY,
  kind {{.Small}} NOT NULL,
  ns {{.Key}} NOT NULL,
  name {{.Key}} NOT NULL,
  image {{.Key}} NOT NULL,
  registry_uid {{.ASCII 64}} NOT NULL,
  registry {{.Key}} NOT NULL,
  host {{.Key}} NOT NULL,
  repository {{.Key}} NOT NULL,
  tag {{.ASCII 160}} NOT NULL,
  digest {{.ASCII 160}} NOT NULL,
  index_digest {{.ASCII 160}} NOT NULL,
  platform {{.ASCII 160}} NOT NULL,
  bytes {{.Int}} NOT NULL,
  state {{.ASCII 64}} NOT NULL,
  presence {{.ASCII 64}} NOT NULL,
  job_uid {{.ASCII 64}} NOT NULL,
  not_before {{.Int}} NOT NULL,
  attempt {{.Int}} NOT NULL,
  lost {{.Int}} NOT NULL,
  critical {{.Int}} NOT NULL,
  high {{.Int}} NOT NULL,
  adapter {{.ASCII 160}} NOT NULL,
  engine {{.ASCII 160}} NOT NULL,
  engine_version {{.ASCII 160}} NOT NULL,
  database_version {{.ASCII 160}} NOT NULL,
  shareable {{.Small}} NOT NULL,
  content {{.Int}} NOT NULL,
  seq {{.Int}} NOT NULL
);
CREATE INDEX subjects_name ON subjects (kind, ns, name);
CREATE INDEX subjects_state ON subjects (kind, ns, registry_uid, state);
CREATE INDEX subjects_job ON subjects (kind, job_uid, ns);
CREATE INDEX subjects_digest ON subjects (kind, digest, platform);
CREATE INDEX subjects_index ON subjects (kind, index_digest);
CREATE INDEX subjects_repository ON subjects (kind, repository, tag);
CREATE INDEX subjects_registry ON subjects (kind, registry);
CREATE INDEX subjects_seq ON subjects (kind, adapter, seq);

-- sum is that of the package URL. A package is kept once, however many images have it.
CREATE TABLE packages (
  id {{.Int}} NOT NULL PRIMARY KEY,
  sum {{.ASCII 32}} NOT NULL UNIQUE,
  purl {{.Long}} NOT NULL
);

CREATE TABLE sbom_packages (
  content {{.Int}} NOT NULL,
  package {{.Int}} NOT NULL,
  PRIMARY KEY (content, package)
){{.Clustered}};
CREATE INDEX sbom_packages_package ON sbom_packages (package);

-- Under which keys an adapter looks for a package, and for what it has found.
CREATE TABLE package_keys (
  adapter {{.ASCII 160}} NOT NULL,
  package {{.Int}} NOT NULL,
  hash {{.Int}} NOT NULL,
  PRIMARY KEY (adapter, package, hash)
){{.Clustered}};
CREATE INDEX package_keys_hash ON package_keys (adapter, hash);

CREATE TABLE finding_keys (
  object {{.Int}} NOT NULL,
  hash {{.Int}} NOT NULL,
  PRIMARY KEY (object, hash)
){{.Clustered}};
CREATE INDEX finding_keys_hash ON finding_keys (hash);

-- The data that an adapter has matched against, in order. linked: which keys differ from the data before is known.
CREATE TABLE database_versions (
  adapter {{.ASCII 160}} NOT NULL,
  seq {{.Int}} NOT NULL,
  version {{.ASCII 160}} NOT NULL,
  built {{.Int}} NOT NULL,
  linked {{.Small}} NOT NULL,
  PRIMARY KEY (adapter, seq)
);

CREATE TABLE database_changes (
  adapter {{.ASCII 160}} NOT NULL,
  hash {{.Int}} NOT NULL,
  seq {{.Int}} NOT NULL,
  PRIMARY KEY (adapter, hash, seq)
){{.Clustered}};
CREATE INDEX database_changes_seq ON database_changes (adapter, seq);
