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
        let tag = object.tag
        if isTagDigest(object, head) { checks.append { Digest.hash($0, .md5).hexadecimal == tag.lowercased() } }
        return checks
    }

    /// The strongest hash of all bytes of an object that a head tells, or its tag where that is one; nil where there is none.
    func checksum(of object: S3Object, _ head: HTTPHead) -> Checksum? {
        let told: [(header: String, algorithm: Digest.Algorithm, length: Int)] = [
            ("x-amz-checksum-sha256", .sha256, 32), ("x-amz-checksum-sha1", .sha1, 20),
        ]
        for (header, algorithm, length) in told where keepsChecksums {
            guard let text = head[header], !text.contains("-"), let value = [UInt8](base64: text), value.count == length
            else { continue }
            return Checksum(algorithm, value)
        }
        guard isTagDigest(object, head) else { return nil }
        return [UInt8](hexadecimal: object.tag).flatMap { $0.count == 16 ? Checksum(.md5, $0) : nil }
    }

    /// True for a tag that is the MD5 of the object's bytes.
    private func isTagDigest(_ object: S3Object, _ head: HTTPHead) -> Bool {
        let encryption = head["x-amz-server-side-encryption"]
        return tagIsDigest && object.tag.utf8.count == 32 && (encryption == nil || encryption == "AES256")
            && head["x-amz-server-side-encryption-customer-algorithm"] == nil
    }
}
