internal import CoveCore

/// What Cove relies on where a provider keeps pictures.
extension ConformanceCheck {
    static let pictures: [ConformanceCheck] = [
        ConformanceCheck(promise: "a picture that a file is given comes back, and of no other file", isDue: keepsSome) {
            bench in
            let (former, latter) = (picture(shade: 40), picture(shade: 200))
            let version = try await bench.create("f", sample(3000)).contentVersion
            let beside = try await bench.create("g", sample(2000)).contentVersion
            let early = try await bench.thumbnail("f", version)
            try demand(bench.isNone(early, [former, latter]), "a new file has a picture that nobody gave it")
            for given in [former, latter] {
                try await bench.setThumbnail(given, "f", version)
                let found = try await bench.thumbnail("f", version)
                try demand(isSame(found, given), "a file has no picture, or another one than it was given last")
            }
            let names = try await bench.thumbnails(["g", "f"])
            try demand(names.contains("f"), "a file that has a picture is none of those that may have one")
            try demand(Set(names).isSubset(of: ["f", "g"]), "\(names) may have a picture; asked were f and g")
            let other = try await bench.thumbnail("g", beside)
            try demand(bench.isNone(other, [former, latter]), "a file has the picture of another one")
            try await bench.setThumbnail(nil, "f", version)
            let listed = Set(try await bench.list().map { String(decoding: $0.name, as: UTF8.self) })
            try demand(listed == ["f", "g"], "with a picture in it the folder lists \(listed.sorted()), not f and g")
            try demand(
                try await bench.lookup("f").contentVersion == version,
                "a picture has changed the file's version"
            )
            try demand(try await bench.bytes("f") == sample(3000), "a picture has changed the file's bytes")
        },
        ConformanceCheck(promise: "a picture of another version is none", isDue: keepsSome) { bench in
            let (former, latter) = (picture(shade: 40), picture(shade: 200))
            let first = try await bench.create("f", sample(3000)).contentVersion
            try await bench.setThumbnail(former, "f", first)
            let second = try await bench.modify("f", first, sample(2000)).contentVersion
            let early = try await bench.thumbnail("f", second)
            try demand(bench.isNone(early, [former]), "a file that was changed has the picture of before")
            try await bench.setThumbnail(latter, "f", second)
            let found = try await bench.thumbnail("f", second)
            try demand(isSame(found, latter), "a file that was changed has not the picture that it was given then")
            // That of before may have gone with its version, or be there yet.
            let old = try? await bench.thumbnail("f", first)
            try demand(!isSame(old, latter), "a picture is given of a version that it was not given for")
            for version in [first, second] { try? await bench.setThumbnail(nil, "f", version) }
        },
        ConformanceCheck(
            promise: "a picture is dropped, once or twice, and not that of another version",
            isDue: keepsSome
        ) { bench in
            let given = picture(shade: 120)
            let first = try await bench.create("f", sample(3000)).contentVersion
            let second = try await bench.modify("f", first, sample(2000)).contentVersion
            try await bench.setThumbnail(given, "f", second)
            try await bench.setThumbnail(nil, "f", first)
            let kept = try await bench.thumbnail("f", second)
            try demand(isSame(kept, given), "a picture went with that of another version")
            for _ in 0..<2 { try await bench.setThumbnail(nil, "f", second) }
            let found = try await bench.thumbnail("f", second)
            try demand(bench.isNone(found, [given]), "a picture that was dropped is there")
        },
    ]

    @Sendable private static func keepsSome(_ capabilities: ProviderCapabilities) -> Bool {
        capabilities.keepsThumbnails && !capabilities.readOnly
    }

    /// True for one picture, whatever is said in it.
    fileprivate static func isSame(_ found: [UInt8]?, _ given: [UInt8]) -> Bool {
        guard let found = found.flatMap({ Picture($0) }), let given = Picture(given) else { return false }
        return found.bytes(texts: [:]) == given.bytes(texts: [:])
    }

    /// A PNG file of one grey, 16 by 16, in which nothing is compressed.
    static func picture(shade: UInt8) -> [UInt8] {
        let side: UInt8 = 16
        let row = [0] + [UInt8](repeating: shade, count: Int(side))
        let pixels = [[UInt8]](repeating: row, count: Int(side)).flatMap(\.self)
        let header = [0, 0, 0, side, 0, 0, 0, side, 8, 0, 0, 0, 0]
        let length = [UInt8(truncatingIfNeeded: pixels.count), UInt8(truncatingIfNeeded: pixels.count >> 8)]
        // A zlib stream (RFC 1950) of one stored block, which is the last one (RFC 1951).
        let data = [0x78, 0x01, 0x01] + length + length.map { ~$0 } + pixels + adler(pixels)
        let signature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
        return signature + chunk("IHDR", header) + chunk("IDAT", data) + chunk("IEND", [])
    }

    private static func chunk(_ name: String, _ content: [UInt8]) -> [UInt8] {
        let named = Array(name.utf8) + content
        return bytes(UInt32(truncatingIfNeeded: content.count)) + named + CyclicCode.crc32.check(named)
    }

    /// The checksum of RFC 1950.
    private static func adler(_ bytes: [UInt8]) -> [UInt8] {
        var (low, high): (UInt32, UInt32) = (1, 0)
        for byte in bytes {
            low = (low + UInt32(byte)) % 65_521
            high = (high + low) % 65_521
        }
        return Self.bytes(high << 16 | low)
    }

    private static func bytes(_ number: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
    }
}

extension CheckBench {
    /// True where no picture was found; one that makes pictures by itself may have another one than was given.
    fileprivate func isNone(_ found: [UInt8]?, _ given: [[UInt8]]) -> Bool {
        guard provider.capabilities.makesThumbnails else { return found == nil }
        return !given.contains { ConformanceCheck.isSame(found, $0) }
    }
}
