"""A small S3: buckets are folders below the root; objects are sent whole or in parts, listed and taken away."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from support.fault_server import FaultHandler, FaultServer, Trouble, served


class ObjectHandler(FaultHandler):
    """Asks for no signature."""

    def do_GET(self) -> None:
        bucket, _, key = self._object()
        if not (self.server.root / bucket).is_dir():
            self._answered(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        elif key:
            super().do_GET()
        else:
            self._list(self.server.root / bucket)

    def do_PUT(self) -> None:
        bucket, query, _ = self._object()
        data = self._body()
        if not (self.server.root / bucket).is_dir():
            return self._answered(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        path = self._path()
        if "partNumber" in query:
            path = self._parts() / f"{int(query['partNumber'][0]):05}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self._answered(200, b"", {"ETag": '"tag"'})

    def do_POST(self) -> None:
        _, query, _ = self._object()
        body = self._body()
        if "delete" in query:
            keys = [piece.split(b"<")[0].decode() for piece in body.split(b"<Key>")[1:]]
            for key in keys:
                (self.server.root / self._object()[0] / key).unlink(missing_ok=True)
            deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            self._answered(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())
        elif "uploads" in query:
            answer = "<InitiateMultipartUploadResult><UploadId>one</UploadId></InitiateMultipartUploadResult>"
            self._answered(200, answer.encode())
        else:
            self._path().write_bytes(b"".join(part.read_bytes() for part in sorted(self._parts().iterdir())))
            shutil.rmtree(self._parts())
            self._answered(200, b"<CompleteMultipartUploadResult><ETag>tag</ETag></CompleteMultipartUploadResult>")

    def do_DELETE(self) -> None:
        self._path().unlink(missing_ok=True)
        self._answered(204, b"")

    def _object(self) -> tuple[str, dict[str, list[str]], str]:
        parts = urlsplit(self.path)
        bucket, _, key = parts.path.strip("/").partition("/")
        return bucket, parse_qs(parts.query, keep_blank_values=True), key

    def _path(self) -> Path:
        return self.server.root / urlsplit(self.path).path.strip("/")

    def _parts(self) -> Path:
        return self.server.root / f".parts-{self._path().name}"

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _list(self, bucket: Path) -> None:
        prefix = self._object()[1].get("prefix", [""])[0]
        keys = sorted(path.relative_to(bucket).as_posix() for path in bucket.rglob("*") if path.is_file())
        found = "".join(
            f"<Contents><Key>{key}</Key><Size>{(bucket / key).stat().st_size}</Size>"
            "<LastModified>2022-11-01T12:00:00.000Z</LastModified><ETag>tag</ETag></Contents>"
            for key in keys
            if key.startswith(prefix) and "/" not in key[len(prefix) :]  # the delimiter
        )
        self._answered(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>".encode())

    def _answered(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        BaseHTTPRequestHandler.end_headers(self)
        self.wfile.write(body)


@contextmanager
def serving_objects(
    root: Path, monkeypatch: pytest.MonkeyPatch, trouble: Trouble | None = None
) -> Iterator[FaultServer]:
    """The folders below `root` as buckets `s3://NAME`, which the environment leads to."""
    with served(FaultServer(root, trouble, ObjectHandler)) as server:
        lead_to(server.url, monkeypatch)
        yield server


def lead_to(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `s3://` mean the server at `url`, with credentials of no worth."""
    for name, value in {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
