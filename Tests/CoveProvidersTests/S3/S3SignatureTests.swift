import CoveCore
import Testing

@testable import CoveProviders

/// The examples that AWS gives for signatures in the `Authorization` header, and where credentials come from.
struct S3SignatureTests {
    private let signature = S3Signature(
        credentials: S3Credentials(
            accessKey: "AKIAIOSFODNN7EXAMPLE",
            secretKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
        ),
        region: "us-east-1",
        time: Timestamp(seconds: 1_369_353_600, nanoseconds: 0)
    )
    private let common: [(name: String, value: String)] = [
        ("Host", "examplebucket.s3.amazonaws.com"), ("x-amz-date", "20130524T000000Z"),
    ]

    private func sign(
        _ method: String,
        _ path: String,
        query: [(name: String, value: String)] = [],
        headers: [(name: String, value: String)] = [],
        payload: String = S3Signature.emptyPayload
    ) -> String {
        let all = common + [("x-amz-content-sha256", payload)] + headers
        return signature.authorization(
            S3Signature.Request(method: method, path: path, query: query, headers: all, payload: payload)
        )
    }

    @Test func `a range of an object`() {
        let expected =
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
            + "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
            + "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        #expect(sign("GET", "/test.txt", headers: [("Range", "bytes=0-9")]) == expected)
    }

    @Test func `an object that is written`() {
        let payload = Digest.hash(Array("Welcome to Amazon S3.".utf8), .sha256).hexadecimal
        let headers = [("Date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")]
        let path = "/" + PercentEncoding.encode("test$file.text".utf8, keepingSlashes: true)
        let signed = sign("PUT", path, headers: headers, payload: payload)
        #expect(signed.hasSuffix("Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"))
    }

    @Test func `a query without a value, and one that is sorted`() {
        let lifecycle = sign("GET", "/", query: [("lifecycle", "")])
        #expect(lifecycle.hasSuffix("Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"))
        let listing = sign("GET", "/", query: [("prefix", "J"), ("max-keys", "2")])
        #expect(listing.hasSuffix("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"))
        #expect(S3Signature.query([("b", "x y"), ("a", "/+")]) == "a=%2F%2B&b=x%20y")
    }

    @Test func `a section of the credentials file`() {
        let text = """
            # comment
            [default]
            aws_access_key_id = one
            aws_secret_access_key=se=cret
            [ work ]
            aws_access_key_id=two
            """
        #expect(
            S3Credentials.profile("default", in: text) == [
                "aws_access_key_id": "one", "aws_secret_access_key": "se=cret",
            ]
        )
        #expect(S3Credentials.profile("work", in: text) == ["aws_access_key_id": "two"])
        #expect(S3Credentials.profile("none", in: text).isEmpty)
    }

    @Test func `credentials are found in their order`() throws {
        let address = try S3Address("s3://key@bucket")
        let all = ["AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "two"]
        func find(_ variables: [String: String], _ login: Credentials? = nil) throws -> String {
            try S3Credentials.find(login: login, address: address) { variables[$0] }.secretKey
        }
        #expect(try find(all, Credentials(user: "other", password: "given")) == "given")
        #expect(try find(all) == "two")
        #expect(throws: ProviderError.self) { try find(["HOME": "/nowhere"]) }
        #expect(throws: ProviderError.self) { try find(["AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"]) }
    }

    @Test func `addresses say where a key is`() throws {
        let plain = try S3Address("s3://bucket/some/prefix")
        #expect(plain.prefix == Array("some/prefix/".utf8))
        let place = plain.place(of: Array("a b/+".utf8), in: "eu-north-1")
        #expect(place.origin == "https://bucket.s3.eu-north-1.amazonaws.com" && place.path == "/a%20b/%2B")
        #expect(try S3Address("s3://bucket").lateCleaning == .seconds(180))
        #expect(try S3Address("s3://bucket?late-cleaning=0").lateCleaning == .zero)
        for value in ["", "x", "-1", "241", "99999999999999999999"] {
            #expect(throws: ProviderError.self) { try S3Address("s3://bucket?late-cleaning=\(value)") }
        }
        let own = try S3Address("s3://bucket?endpoint=http://host:80&region=r")
        #expect(own.place(of: nil, in: "r") == ("http://host", "host", "/bucket"))
        let hosted = try S3Address("s3://bucket?endpoint=https://host:9000&path-style=no")
        #expect(hosted.place(of: nil, in: "r") == ("https://bucket.host:9000", "bucket.host:9000", "/"))
        for bad in ["s3://", "s3://b/..%2Fx", "s3://b?endpoint=ftp://x", "s3://b?path-style=maybe"] {
            #expect(throws: (any Error).self) { try S3Address(bad) }
        }
    }
}
