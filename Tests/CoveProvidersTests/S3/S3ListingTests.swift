import CoveCore
import CoveTestSupport
import Testing

@testable import CoveProviders

/// What is made of a server's listings, good and bad.
struct S3ListingTests {
    private static let good = """
        <?xml version="1.0" encoding="UTF-8"?>
        <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix>p%2F</Prefix>
        <IsTruncated>true</IsTruncated><NextContinuationToken>next</NextContinuationToken>
        <Contents><Key>p/</Key><LastModified>2026-11-21T13:48:07.543Z</LastModified><ETag>"d4"</ETag><Size>0</Size></Contents>
        <Contents><Key>p/a+b%2B%26</Key><LastModified>2026-11-21T13:48:07.543Z</LastModified>
        <ETag>&#34;e1&#34;</ETag><Size>12</Size><Owner><ID>x</ID><DisplayName>Size</DisplayName></Owner></Contents>
        <Contents><Key>p/name</Key><LastModified>2026-11-21T13:48:07Z</LastModified><ETag>e2</ETag><Size>1</Size></Contents>
        <CommonPrefixes><Prefix>p/name/</Prefix></CommonPrefixes>
        <CommonPrefixes><Prefix>p/.cove/</Prefix></CommonPrefixes>
        <CommonPrefixes><Prefix>p/%C3%A4/</Prefix></CommonPrefixes><EncodingType>url</EncodingType></ListBucketResult>
        """

    /// Feeds a listing in pieces of some size.
    private func read(_ bytes: [UInt8], pieces: Int = 7) throws -> S3Listing {
        let listing = S3Listing(.seconds(60))
        try listing.begin(HTTPHead(status: 200))
        for start in stride(from: 0, to: bytes.count, by: pieces) {
            try bytes[start..<min(bytes.count, start + pieces)].withUnsafeBytes { try listing.receive($0) }
        }
        try listing.finish()
        return listing
    }

    private func wrap(_ inside: String) -> [UInt8] { Array("<ListBucketResult>\(inside)</ListBucketResult>".utf8) }

    @Test(arguments: [1, 2, 7, 100_000])
    func `a listing is read in pieces of any size`(pieces: Int) throws {
        let listing = try read(Array(Self.good.utf8), pieces: pieces)
        #expect(listing.next == "next")
        #expect(listing.objects.map(\.key) == ["p/", "p/a b+&", "p/name"].map { Array($0.utf8) })
        #expect(listing.objects.map(\.tag) == ["d4", "e1", "e2"])
        // A tag may be told of what is there, with the size of what was.
        #expect(listing.objects.map(\.version.description) == ["d4 0", "e1 12", "e2 1"])
        #expect(listing.objects.map(\.size) == [0, 12, 1])
        #expect(listing.objects[1].modified == HTTPDate.parse("Sat, 21 Nov 2026 13:48:07 GMT"))
        #expect(listing.prefixes == ["p/name/", "p/.cove/", "p/ä/"].map { Array($0.utf8) })
    }

    /// What is read without making texts of it is what the texts say.
    @Test func `dates of the usual form are read like all others`() {
        var random = SeededGenerator(seed: 1)
        func two(_ range: ClosedRange<Int>) -> String {
            let number = Int.random(in: range, using: &random)
            return number < 10 ? "0\(number)" : "\(number)"
        }
        var read = 0
        for _ in 0..<20_000 {
            let year = String(Int.random(in: 1000...9999, using: &random))
            // Also some that are none.
            var text = "\(year)-\(two(0...13))-\(two(0...32))T\(two(0...24)):\(two(0...60)):\(two(0...61))"
            if random.oneIn(2) { text += "." + String(Int.random(in: 0...999_999_999, using: &random)) }
            if random.oneIn(50) { text += "x" }
            text += "Z"
            let time = HTTPDate.parseInternet(text)
            #expect(HTTPDate.parseInternet(Array(text.utf8)) == time, "\(text)")
            if time != nil { read += 1 }
        }
        #expect(read > 10_000)
        let others = ["", "Z", "1994-11-06T08:49:37.Z", "1994-11-06T08:49:37", "0000-01-01T00:00:00Z"]
        for text in others + ["1994-11-6T8:49:37Z", "+994-11-06T08:49:37Z", "1994-11-06T08:49:37.0000000001Z"] {
            #expect(HTTPDate.parseInternet(Array(text.utf8)) == HTTPDate.parseInternet(text), "\(text)")
        }
    }

    @Test func `a directory that has a file's name is told, and hides nothing`() throws {
        var cursor = S3Cursor(path: .root)
        let items = cursor.take(try read(Array(Self.good.utf8)), of: Array("p/".utf8), S3Names()) { _ in }
        #expect(items.map { String(decoding: $0.name, as: UTF8.self) } == ["a b+&", "name", "name/", "ä"])
        #expect(items.map(\.kind) == [.file, .file, .directory, .directory])
        // Also when the page ends between the two.
        var later = S3Cursor(path: .root)
        let file = "<Contents><Key>name</Key><Size>1</Size></Contents>"
        let between = "<Contents><Key>name-b</Key><Size>1</Size></Contents>"
        let directory = "<CommonPrefixes><Prefix>name/</Prefix></CommonPrefixes>"
        for (page, names) in [(file, ["name"]), (between, ["name-b"]), (directory, ["name/"])] {
            let items = later.take(try read(wrap(page)), of: [], S3Names()) { _ in }
            #expect(items.map { String(decoding: $0.name, as: UTF8.self) } == names)
        }
    }

    @Test(
        arguments: [
            "", "<Contents/>", "<Contents><Key>a</Key></Contents>", "<Contents><Key>a</Key><Size>x</Size></Contents>",
            "<IsTruncated>true</IsTruncated>", "<EncodingType>url</EncodingType><CommonPrefixes/>",
            "<EncodingType>url</EncodingType><Contents><Key>%zz</Key><Size>1</Size></Contents>", "<a><b></a></b>",
        ]
    )
    func `what makes no sense is an error`(inside: String) throws {
        guard !inside.isEmpty else {
            for text in ["", "<html></html>", "<ListBucketResult>", "plain", "<Error><Code>x</Code></Error>"] {
                #expect(throws: ProviderError.self) { try read(Array(text.utf8)) }
            }
            return
        }
        #expect(throws: ProviderError.self) { try read(wrap(inside)) }
    }

    @Test func `endless and exploding documents are refused`() throws {
        let bomb = """
            <!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><ListBucketResult><Name>&b;</Name>
            </ListBucketResult>
            """
        #expect(throws: ProviderError.self) { try read(Array(bomb.utf8)) }
        let row = "<Contents><Key>a</Key><Size>1</Size></Contents>"
        #expect(throws: ProviderError.self) { try read(wrap(String(repeating: row, count: 10_001)), pieces: 4096) }
        #expect(throws: ProviderError.self) { try read(wrap(String(repeating: "<a>", count: 100)), pieces: 4096) }
        let long = "<Contents><Key>\(String(repeating: "a", count: 100_000))</Key></Contents>"
        #expect(throws: ProviderError.self) { try read(wrap(long), pieces: 4096) }
    }

    @Test func `names are changed for a server and changed back`() {
        let names = S3Names(keepsBackslashes: false)
        for text in ["plain", "a\\b", "＼", "‛＼\\", "‛", "ä\\＼‛", "\\\\", "＼＼"] {
            let key = names.encode(Array(text.utf8))
            #expect(!key.contains(0x5C))
            #expect(names.decode(key) == Array(text.utf8))
        }
        #expect(S3Names().encode(Array("a\\b".utf8)) == Array("a\\b".utf8))
    }

    @Test func `times are written as other programs write them`() {
        for (time, text) in [(0, "0"), (1_420_070_400_500_000_000, "1420070400.500000000"), (-5, "-0.000000005")] {
            #expect(S3Object.text(Timestamp(Int64(time))) == text)
            #expect(S3Object.time(text) == Timestamp(Int64(time)))
        }
        #expect(S3Object.time("1420070400.5") == Timestamp(1_420_070_400_500_000_000))
        for bad in ["", "-", "x", "1.", "1.2.3", "99999999999999", "1.x", "--1"] { #expect(S3Object.time(bad) == nil) }
    }
}
