internal import CoveCore
internal import FoundationEssentials
internal import Glibc

/// Pictures of documents whose bytes need not be here.
extension CommandTable {
    static let thumbnail = Command(
        name: "thumbnail",
        summary: "find or set the picture of a file, here or not",
        operands: .init(names: ["PATH"], minimum: 1),
        options: [
            Option(short: "o", argument: "FILE", summary: "write the picture to a new file", completion: .file),
            Option(long: "set", argument: "IMAGE", summary: "give the file this picture", completion: .file),
            Option(long: "remove", summary: "take its picture away"),
        ],
        details: """
            Tells the path of a PNG file of at most 1024 by 1024 pixels, which stays until the file changes. It comes from the
            source, or the desktop's thumbnailers make it of the bytes that are here; nothing else is downloaded for it. File
            managers find it in the desktop's cache of thumbnails. A picture that is set goes to other devices too, where the
            source keeps pictures. Fails where there is none.
            """
    ) { arguments throws(Failure) in
        let isOne = [arguments.value("o") != nil, arguments.value("set") != nil, arguments.has("remove")]
        guard isOne.filter({ $0 }).count <= 1 else {
            throw .usage(nil, "-o, --set and --remove exclude each other", "give one of them")
        }
        let location = try Failure.locating(arguments.operands[0])
        let connection = try AccountConnection(location.daemon, name: location.shown)
        if arguments.has("remove") || arguments.value("set") != nil {
            try set(arguments.value("set"), location, connection)
            if arguments.has("json") { try JSONOutput.write(try connection.info(location)) }
            return 0
        }
        let reply: ItemInterface.ThumbnailReply = try connection.call(
            "\(ItemInterface.name).Thumbnail",
            ItemInterface.Request(path: PathParameter(location.path)),
            subject: location.shown,
            timeout: nil
        )
        guard let file = reply.file, let picture = ThumbnailCache.read(file) else {
            throw Failure(location.shown, "there is no thumbnail of it", "one is made once its bytes are here")
        }
        var shown = ShownThumbnail(
            path: location.path.description,
            file: file,
            width: picture.width,
            height: picture.height
        )
        if let name = arguments.value("o") {
            let output = FileOutput(file: name)
            output.write(Data(picture.bytes(texts: [:])))
            try output.end()
            shown.file = name
        }
        if arguments.has("json") {
            try JSONOutput.write(shown)
        } else if arguments.value("o") == nil {
            Terminal.standardOutput.write(file + "\n")
        }
        return 0
    }

    private static func set(
        _ file: String?,
        _ location: ItemLocation,
        _ connection: AccountConnection
    ) throws(Failure) {
        var name: String?
        if let file {
            do throws(Errno) {
                let descriptor = try System.open(file, O_RDONLY)
                defer { System.close(descriptor) }
                guard try System.fstat(descriptor).st_size <= ThumbnailHandover.greatestSize else {
                    throw .fileTooLarge
                }
                let bytes = try System.contents(descriptor, atMost: ThumbnailHandover.greatestSize)
                name = try ThumbnailHandover.put(bytes, beside: location.daemon.socket)
            } catch {
                throw Failure(file, "it can't be handed over: \(error)", "name an image of at most 16 MiB")
            }
        }
        // Taken away again by whoever reads it.
        defer { if let name { ThumbnailHandover.drop(name, beside: location.daemon.socket) } }
        let _: VarlinkNothing = try connection.call(
            "\(ItemInterface.name).SetThumbnail",
            ItemInterface.Request(path: PathParameter(location.path), picture: name),
            subject: location.shown,
            timeout: nil
        )
    }
}

/// What `cove thumbnail --json` says.
private struct ShownThumbnail: Encodable {
    var path: String
    var file: String
    var width: Int
    var height: Int
}
