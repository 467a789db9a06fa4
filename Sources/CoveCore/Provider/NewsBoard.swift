internal import FoundationEssentials

/// What the devices of an account have left word of: in which directories each has changed something lately.
///
/// It only says where to look. Whatever stands in it is found at the source or not at all.
public struct NewsBoard: Sendable, Equatable {
    /// A directory in which a device has changed something.
    public struct Place: Sendable, Equatable {
        /// The directory, at the source.
        public var directory: RemotePath
        /// What was changed in it; nil where that is too much to tell.
        public var names: Set<FileName>?
        /// The device's number of the change.
        public var number: Int64
        /// Makes one.
        public init(_ directory: RemotePath, _ names: Set<FileName>?, number: Int64) {
            (self.directory, self.names, self.number) = (directory, names, number)
        }
    }

    /// What one device has left.
    public struct Word: Sendable, Equatable {
        /// The number of its last change.
        public var last: Int64 = 0
        /// Of changes with lower numbers not all are told any more.
        public var first: Int64 = 1
        /// When it was left, by the device's clock, in seconds since 1970.
        public var time: Int64 = 0
        /// Where something was changed, each directory once, by rising numbers.
        public var places: [Place] = []
        /// Makes an empty one.
        public init() {}
    }

    /// The most bytes that one has.
    public static let greatestSize = 128 << 10
    /// The most directories that are told of a device.
    static let mostPlaces = 256
    /// The most names that are told of a directory.
    static let mostNames = 16
    /// The most devices.
    static let mostDevices = 500
    /// A device that has left nothing for so long is forgotten, in seconds.
    public static let silence: Int64 = 30 * 86_400
    /// No number is greater: there is room for as many more.
    private static let greatestNumber = Int64.max / 4

    /// The words, by the devices' names.
    public var devices: [String: Word] = [:]

    /// Makes an empty one.
    public init() {}

    /// Adds what a device has changed, or only that it is there; the number that it has then.
    ///
    /// `after`: a number that the device has used already.
    @discardableResult
    public mutating func add(
        _ changes: [RemotePath: Set<FileName>?],
        of device: String,
        after used: Int64,
        at time: Int64
    ) -> Int64 {
        devices = devices.filter { $0.key == device || $0.value.time.addingReportingOverflow(Self.silence).0 >= time }
        var word = devices[device] ?? Word()
        // No device gets as far: somebody else has written this, and it would be the last word for ever.
        if word.last >= Self.greatestNumber { word = Word() }
        let used = used < Self.greatestNumber ? used : 0
        // Who begins, perhaps anew, has never used so great a number: word is left at most once a second.
        let last = used > 0 || word.last > 0 ? used : min(time, Self.greatestNumber / 2)
        if word.last < last {
            // What it has told until then is lost.
            (word.last, word.first, word.places) = (last, last + 1, [])
        }
        word.time = time
        if !changes.isEmpty { word.last += 1 }
        for (directory, names) in changes {
            let former = word.places.firstIndex { $0.directory == directory }.map { word.places.remove(at: $0) }
            var all = names
            if let former { all = if let old = former.names { all?.union(old) } else { nil } }
            if let count = all?.count, count > Self.mostNames { all = nil }
            word.places.append(Place(directory, all, number: word.last))
        }
        word.cut(to: Self.mostPlaces)
        devices[device] = word
        while devices.count > Self.mostDevices { dropOldest(except: device) }
        return word.last
    }

    /// Has a device say that it has changed something, and can't tell where.
    public mutating func admitGap(of device: String) {
        guard var word = devices[device], word.last < Self.greatestNumber else { return }
        word.last += 1
        word.first = word.last + 1
        devices[device] = word
    }

    /// Has a device name no places any more; that something has changed stays told.
    public mutating func conceal(_ device: String) { devices[device]?.cut(to: 0) }

    /// Has all places called as they are elsewhere.
    public mutating func translate(_ path: (RemotePath) -> RemotePath) {
        devices = devices.mapValues { word in
            var word = word
            for (index, place) in word.places.enumerated() {
                word.places[index].directory = path(place.directory)
                guard place.directory.isRoot, let names = place.names else { continue }
                word.places[index].names = Set(names.map { path(RemotePath([$0])).name ?? $0 })
            }
            return word
        }
    }

    private mutating func dropOldest(except device: String) {
        guard let oldest = devices.filter({ $0.key != device }).min(by: { $0.value.time < $1.value.time }) else {
            return
        }
        devices[oldest.key] = nil
    }

    /// The bytes that are stored, at most `greatestSize`: what is oldest is left out, of others than a device first.
    public mutating func encode(for device: String) -> [UInt8] {
        while true {
            let bytes = (try? JSONValue(encoding: Stored(self)).bytes) ?? []
            if bytes.count <= Self.greatestSize { return bytes }
            if devices.count > 1 {
                dropOldest(except: device)
            } else {
                guard var word = devices[device], !word.places.isEmpty else { return [] }
                word.cut(to: word.places.count / 2)
                devices[device] = word
            }
        }
    }

    /// Reads what is stored; nil where it is none, or more than any device leaves.
    public init?(parsing bytes: [UInt8]) {
        guard bytes.count <= Self.greatestSize, let value = try? JSONValue(parsing: bytes, nestedTo: 8),
            let stored: Stored = try? value.decode(), stored.devices.count <= Self.mostDevices
        else { return nil }
        for (device, said) in stored.devices {
            guard (0...Self.greatestNumber).contains(said.last), said.places.count <= Self.mostPlaces else {
                return nil
            }
            var word = Word()
            (word.last, word.first, word.time) = (said.last, max(1, min(said.first, said.last + 1)), said.time)
            for place in said.places {
                guard let directory = (try? PathParameter(place).remotePath()) ?? nil else { return nil }
                // Hidden places are no device's business.
                if directory.names.contains(where: \.isReserved) { continue }
                let names = place.names.map { Set($0.compactMap { FileName($0) }.filter { !$0.isReserved }) }
                word.places.append(Place(directory, names, number: max(0, min(place.n, said.last))))
            }
            devices[device] = word
        }
    }
}

extension NewsBoard.Word {
    /// Keeps the latest places only.
    fileprivate mutating func cut(to count: Int) {
        guard places.count > count else { return }
        places.sort { $0.number < $1.number }
        let dropped = places.prefix(places.count - count)
        first = max(first, (dropped.last?.number ?? 0) + 1)
        places.removeFirst(dropped.count)
    }
}

/// How a board is stored.
private struct Stored: Codable {
    struct Place: Codable {
        var n: Int64
        var path: String?
        var pathBase64: String?
        var names: [String]?

        private enum CodingKeys: String, CodingKey {
            case n, path, names
            case pathBase64 = "path_base64"
        }
    }

    struct Word: Codable {
        var last: Int64
        var first: Int64
        var time: Int64
        var places: [Place]
    }

    var devices: [String: Word]

    init(_ board: NewsBoard) {
        devices = board.devices.mapValues { word in
            let places = word.places.map { place in
                let path = PathParameter(place.directory)
                let names = place.names.map { $0.map { String(validating: $0.bytes, as: UTF8.self) } }
                let isText = names?.contains(nil) == false
                return Place(
                    n: place.number,
                    path: path.path,
                    pathBase64: path.pathBase64,
                    names: isText ? names?.compactMap(\.self).sorted() : nil
                )
            }
            return Word(last: word.last, first: word.first, time: word.time, places: places)
        }
    }
}

extension PathParameter {
    fileprivate init(_ place: Stored.Place) {
        self.init()
        (path, pathBase64) = (place.path, place.pathBase64)
    }
}
