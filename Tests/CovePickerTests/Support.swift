import CoveCore
import Synchronization

@testable import CovePicker

/// A service whose folders are made up, and whose answers a test holds back.
final class MadeUpService: PickerService {
    let request: PickerRequest
    private let places: [PickerRoot]
    private let folders: Mutex<[String: [PickerEntry]]>
    /// What was chosen.
    let chosen = Mutex<[PickerSelection]>([])
    /// What a choice comes to.
    let answer = Mutex<Result<PickerOutcome, PickerFailure>>(.success(PickerOutcome(path: Array("/copy".utf8))))
    /// How many times anything was listed.
    let listings = Atomic<Int>(0)
    let cancels = Atomic<Int>(0)
    /// True while listings wait until they are given up.
    let isSlow = Atomic<Bool>(false)

    init(
        mode: PickerMode = .import,
        types: [String] = [],
        roots: [String] = ["/mnt"],
        file: String? = nil,
        folders: [String: [PickerEntry]]
    ) throws {
        request = PickerRequest(
            app: "org.example.App",
            mode: mode,
            filter: try TypeFilter(types),
            file: file.map { Array($0.utf8) }
        )
        places = roots.map { PickerRoot(name: "Place \($0)", path: Array($0.utf8), identifier: $0) }
        self.folders = Mutex(folders)
    }

    func roots() throws(PickerFailure) -> [PickerRoot] { places }

    func list(
        _ folder: [UInt8],
        interruption: Interruption,
        _ body: ([PickerEntry]) -> Void
    ) throws(PickerFailure) {
        listings.add(1, ordering: .sequentiallyConsistent)
        let name = String(decoding: folder, as: UTF8.self)
        guard let entries = folders.withLock({ $0[name] }) else {
            throw PickerFailure(name, "is not there", "choose another one")
        }
        let half = entries.count / 2
        body(Array(entries[..<half]))
        while isSlow.load(ordering: .sequentiallyConsistent) {
            guard !interruption.isInterrupted else { throw .interrupted }
        }
        body(Array(entries[half...]))
    }

    func thumbnail(_ path: [UInt8]) throws(PickerFailure) -> [UInt8]? {
        path.elementsEqual("/mnt/picture.png".utf8) ? [0x89, 0x50, 0x4E, 0x47] : nil
    }

    func choose(_ selection: PickerSelection, interruption: Interruption) throws(PickerFailure) -> PickerOutcome {
        chosen.withLock { $0.append(selection) }
        return try answer.withLock { $0 }.get()
    }

    func cancel() { cancels.add(1, ordering: .sequentiallyConsistent) }
}

extension PickerEntry {
    /// A file, or with a slash at its end a folder.
    static func made(
        _ name: String,
        size: Int64 = 10,
        state: State = .dataless,
        isSelectable: Bool = true
    ) -> PickerEntry {
        let isFolder = name.hasSuffix("/")
        return PickerEntry(
            name: Array((isFolder ? String(name.dropLast()) : name).utf8),
            kind: isFolder ? .folder : .file,
            size: isFolder ? 0 : size,
            modificationTime: 1_700_000_000,
            type: isFolder ? "inode/directory" : ContentTypes.ofMachine.type(ofFile: name),
            state: state,
            isSelectable: !isFolder && isSelectable
        )
    }
}
