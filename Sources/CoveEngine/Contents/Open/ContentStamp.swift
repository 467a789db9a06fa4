internal import CoveCore
internal import Glibc

/// What tells whether a content file was written to: each write and each first write to a page of a mapping changes it.
struct ContentStamp: Equatable {
    var size: Int64
    var modificationTime: Timestamp
    var changeTime: Timestamp

    /// A file that is being made: none looks like this later.
    static let none = ContentStamp(size: 0, modificationTime: Timestamp(0), changeTime: Timestamp(0))

    init(size: Int64, modificationTime: Timestamp, changeTime: Timestamp) {
        self.size = size
        self.modificationTime = modificationTime
        self.changeTime = changeTime
    }

    init(_ status: stat) {
        size = Int64(status.st_size)
        modificationTime = Timestamp(status.st_mtim)
        changeTime = Timestamp(status.st_ctim)
    }

    /// That of an open file.
    init(_ descriptor: Int32) throws(Errno) { self.init(try System.fstat(descriptor)) }

    /// A row says what the file says.
    func apply(to row: inout ItemRow) {
        row.size = size
        row.modificationTime = modificationTime
        row.changeTime = changeTime
    }
}
