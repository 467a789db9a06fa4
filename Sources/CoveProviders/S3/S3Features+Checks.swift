internal import CoveCore

/// What a head tells of the bytes of an object.
extension S3Features {
    /// A checksum of bytes as a server writes it.
    private typealias Text = @Sendable ([UInt8]) -> String

    /// The checksums that servers name in headers, of the whole object unless they have a dash.
    private static let checksums: [(header: String, text: Text)] = [
        ("x-amz-checksum-sha256", { Digest.hash($0, .sha256).base64 }),
        ("x-amz-checksum-sha1", { Digest.hash($0, .sha1).base64 }),
        ("x-amz-checksum-crc64nvme", { CyclicCode.crc64nvme.check($0).base64 }),
        ("x-amz-checksum-crc32c", { CyclicCode.crc32c.check($0).base64 }),
        ("x-amz-checksum-crc32", { CyclicCode.crc32.check($0).base64 }),
        ("content-md5", { Digest.hash($0, .md5).base64 }),
    ]

    /// The checks that all bytes of an object must pass.
    func checks(of object: S3Object, _ head: HTTPHead) -> [CheckedSink.Check] {
        var checks: [CheckedSink.Check] = []
        for (header, text) in Self.checksums where keepsChecksums || !header.hasPrefix("x-amz-") {
            guard let value = head[header], !value.contains("-") else { continue }
            checks.append { text($0) == value }
        }
        let encryption = head["x-amz-server-side-encryption"]
        let tag = object.tag
        if tagIsDigest, tag.utf8.count == 32, encryption == nil || encryption == "AES256",
            head["x-amz-server-side-encryption-customer-algorithm"] == nil
        {
            checks.append { Digest.hash($0, .md5).hexadecimal == tag.lowercased() }
        }
        return checks
    }
}
